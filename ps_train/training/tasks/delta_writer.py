"""The writer of a run's deltas (`--delta_every_secs`): a process beside the chief, which takes no time from training.

    writer = DeltaWriter("/models/run1", every_secs=300)
    writer.finish(600)                  # SaveError unless the chain leads to the last checkpoint

It has a low priority.  It ends at once when the chief does, however that ends.  The next one goes on with the chain.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from ps_train.base.console import ERROR_BEGINS
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, PsTrainError, SaveError, one_line
from ps_train.base.tf_import import import_tensorflow

_FINISH = "finish\n"
_NICE = 5
"""Priority: low, but not so low that it waits for ever on a busy machine."""

_POLL_SECS = 1.0
"""Seconds between two looks for a checkpoint while a delta is due."""


class DeltaWriter:
    """The process that writes the deltas of a run.

    Args:
      model_dir: local directory of the run.
      every_secs: seconds between two deltas.
    """

    def __init__(self, model_dir: str, every_secs: float) -> None:
        command = [sys.executable, "-m", "ps_train.training.tasks.delta_writer", model_dir, str(every_secs)]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        environ = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ, text=True, start_new_session=True)

    def finish(self, within_secs: float) -> None:
        """Waits until the chain leads to the last checkpoint.

        Raises:
          SaveError: it does not.
        """
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(_FINISH)
            self._process.stdin.flush()
            code = self._process.wait(within_secs)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SaveError(f"the deltas are not written ({one_line(error)})") from None
        if code != EXIT_DONE:
            raise SaveError("the deltas are not written: the cause is above")


def _write(model_dir: str, every_secs: float, is_finishing: threading.Event) -> None:
    """Extends the chain until the chief finishes."""
    from ps_train.engine.checkpoint.deltas.chain import Chain  # late: it imports TensorFlow

    chain = Chain(model_dir)
    while not is_finishing.is_set():
        began = time.monotonic()
        made = chain.extend()
        is_finishing.wait(began + every_secs - time.monotonic() if made else min(_POLL_SECS, every_secs))
    chain.extend()
    chain.close()


def _watch_chief(is_finishing: threading.Event) -> None:
    """Ends this process when the chief has ended; sets the event when it finishes."""
    for line in sys.stdin:
        if line == _FINISH:
            is_finishing.set()
    os._exit(EXIT_FAILED)


def main(model_dir: str, every_secs: float) -> int:
    """Writes deltas until the chief ends or finishes; returns the exit code."""
    os.nice(_NICE)
    is_finishing = threading.Event()
    threading.Thread(target=_watch_chief, args=[is_finishing], daemon=True).start()
    try:
        import_tensorflow(verbose=False)
        _write(model_dir, every_secs, is_finishing)
    except (PsTrainError, OSError) as error:
        print(f"{ERROR_BEGINS}delta_every_secs: {one_line(error)}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    return EXIT_DONE


if __name__ == "__main__":
    os._exit(main(sys.argv[1], float(sys.argv[2])))
