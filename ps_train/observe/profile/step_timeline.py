"""The timeline of a worker's steps, written to a file; it shows the behaviour of the update modes.

    timeline = StepTimeline("/tmp/clocks", "worker:1")       # writes /tmp/clocks/worker-1.csv
    run = timeline.timed(session.run)
    run(operations)                                          # adds a line: step,began,ended

Times are seconds since the epoch by the worker's own clock; steps are the worker's own, counted from 0.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ps_train.base.errors import ConfigError
from ps_train.base.lost_outputs import lose

P = ParamSpec("P")
T = TypeVar("T")


class StepTimeline:
    """File of the times at which steps began and ended.

    Args:
      directory: directory of the file.
      task: name of the task, `worker:1`.

    Raises:
      ConfigError: the directory is not writable.
    """

    def __init__(self, directory: str, task: str) -> None:
        self._steps = 0
        try:
            os.makedirs(directory, exist_ok=True)
            path = os.path.join(directory, task.replace(":", "-") + ".csv")
            self._file = open(path, "w")  # noqa: SIM115  (it stays open as long as the process lives)
            self._write("step,began,ended")
        except OSError as error:
            raise ConfigError(
                f"timeline_dir={directory} cannot be written to ({error.strerror}): use another directory."
            ) from None
        self._output = f"timeline_dir={directory}"

    def timed(self, run: Callable[P, T]) -> Callable[P, T]:
        """Returns the same function, timed; each call that returns is a step."""

        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            began = time.time()
            result = run(*args, **kwargs)
            try:
                self._write(f"{self._steps},{began:.6f},{time.time():.6f}")
            except OSError as error:
                lose(self._output, error)
            self._steps += 1
            return result

        return timed

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()  # the process ends without closing files
