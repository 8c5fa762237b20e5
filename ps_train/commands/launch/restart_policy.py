"""The policy of restarts of failed children, a function of exit codes and counts alone.

    restarts = RestartPolicy(max_restarts=3)
    restarts.delay("ps:0", code=-9)         # 0.5: restart it after this number of seconds; None: do not restart it

Pure, standard library only: the launcher uses it.
"""

from __future__ import annotations

import collections
import signal

from ps_train.base.errors import EXIT_CONFIG, EXIT_DONE, exit_code_of_signal

_FIRST_SECS, _LONGEST_SECS = 0.5, 30.0

_FINAL = (EXIT_DONE, EXIT_CONFIG, exit_code_of_signal(signal.SIGINT), exit_code_of_signal(signal.SIGTERM))
"""Exit codes that no restart follows; a process that a signal killed at once has a negative code instead."""


class RestartPolicy:
    """Decision on the restart of each failed task.

    Args:
      max_restarts: maximum number of restarts of each task.

    Attributes:
      max_restarts: the same.
    """

    def __init__(self, max_restarts: int) -> None:
        self.max_restarts = max_restarts
        self._made: collections.Counter[str] = collections.Counter()

    def delay(self, task: str, code: int) -> float | None:
        """Returns the seconds until the task's restart, doubled each time; None if it is not restarted.

        A wrong configuration is never restarted, because a restart cannot help; neither is a task that a signal has
        asked to end, because it has ended the job.

        Args:
          task: name of the task.
          code: exit code of its process; negative for a signal.
        """
        if code in _FINAL or self._made[task] >= self.max_restarts:
            return None
        self._made[task] += 1
        return float(min(_FIRST_SECS * 2 ** (self._made[task] - 1), _LONGEST_SECS))

    def restarts_made(self, task: str) -> int:
        """Returns the number of restarts of a task so far."""
        return self._made[task]
