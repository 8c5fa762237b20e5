"""The writer of a run's deltas (`--delta_every_secs`): a process beside the chief, which takes no time from training.

    writer = DeltaWriter("/models/run1", every_secs=300)
    writer.finish(600)                  # SaveError unless the chain leads to the last checkpoint
    writer.close()

It has a low priority.  It ends at once when the chief does, however that ends.  The next one goes on with the chain.
A delta that cannot be written is tried again later, and a writer that dies is started again: `side_work` knows of both.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time

from ps_train.base import side_work
from ps_train.base.children import NewProcess, start_text_child
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, SaveError, headline, is_config
from ps_train.base.tf_import import import_tensorflow
from ps_train.base.untrusted import UntrustedError, is_of, parse_json

_NAME = "deltas"
_FINISH = "finish\n"
_NICE = 5
"""Priority: low, but not so low that it waits for ever on a busy machine."""

_POLL_SECS = 1.0
"""Seconds between two looks for a checkpoint while a delta is due."""

_LAST_TRIES_SECS = 60.0
"""Seconds within which the last delta is tried again."""

_LONGEST_PAUSE_SECS = 60.0


class DeltaWriter:
    """The process that writes the deltas of a run.

    Args:
      model_dir: local directory of the run.
      every_secs: seconds between two deltas.
    """

    def __init__(self, model_dir: str, every_secs: float) -> None:
        self._command = [sys.executable, "-m", "ps_train.training.duties.delta_writer", model_dir, str(every_secs)]
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._is_finishing = self._is_closed = False
        self._process = self._started()
        threading.Thread(target=self._watch, daemon=True, name="delta writer").start()

    def finish(self, within_secs: float) -> None:
        """Waits until the chain leads to the last checkpoint.

        Raises:
          SaveError: it does not.
        """
        with self._lock:
            self._is_finishing = True
            self._tell_to_finish()
        is_over = self._ended.wait(within_secs)
        if not is_over or self._process.poll() != EXIT_DONE:
            failure = side_work.failing().get(_NAME)
            late = f"not within {within_secs:g}s"
            raise SaveError(f"the deltas are not written ({late if failure is None else failure.reason})")

    def close(self) -> None:
        """Ends the process."""
        with self._lock, contextlib.suppress(OSError):
            self._is_closed = True
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _started(self) -> NewProcess:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        environ = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        return start_text_child(self._command, environ, stderr=None)

    def _tell_to_finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has died: the next one is told
            assert self._process.stdin is not None
            self._process.stdin.write(_FINISH)
            self._process.stdin.flush()

    def _watch(self) -> None:
        """Takes in what the process says, and starts another one if it dies."""
        pause = _POLL_SECS
        while True:
            process = self._process
            assert process.stdin is not None and process.stdout is not None
            with process.stdout:
                for line in process.stdout:
                    _take_in(line)
            code = process.wait()
            with self._lock, contextlib.suppress(OSError):
                process.stdin.close()
            if self._is_closed or (self._is_finishing and code in (EXIT_DONE, EXIT_FAILED)):
                self._ended.set()
                return
            side_work.failed(_NAME, f"their writer has ended with exit code {code}, and is started again")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECS)
            with self._lock:
                if self._is_closed:
                    return
                self._process = self._started()
                if self._is_finishing:
                    self._tell_to_finish()


def _take_in(line: str) -> None:
    """Takes in a line of the writer: {"problem": TEXT}, which is empty when it works."""
    with contextlib.suppress(UntrustedError):
        found = parse_json(line)
        problem = found.get("problem") if isinstance(found, dict) else None
        if is_of("str", problem):
            side_work.failed(_NAME, str(problem)) if problem else side_work.works(_NAME)


def _say(problem: str) -> None:
    print(json.dumps({"problem": problem}), flush=True)


def _write(model_dir: str, every_secs: float, is_finishing: threading.Event) -> int:
    """Extends the chain until it leads to the last checkpoint after the chief finishes; returns the exit code."""
    from ps_train.saved.deltas.chain import DeltaChain  # late: it imports TensorFlow

    chain: DeltaChain | None = None
    last_try = float("inf")
    while True:
        began, is_last = time.monotonic(), is_finishing.is_set()
        if is_last:
            last_try = min(last_try, began + _LAST_TRIES_SECS)
        try:
            chain = chain or DeltaChain(model_dir)
            made = chain.extend()
            _say("")
            if is_last and not made:
                return EXIT_DONE
            wait_secs = 0.0 if is_last else began + every_secs - time.monotonic() if made else _POLL_SECS
        except Exception as error:  # a full disk has room again; TensorFlow has errors of its own
            if chain is not None:
                chain.close()
                chain = None
            _say(f"they cannot be written ({headline(error)})")
            if is_last and (is_config(error) or time.monotonic() > last_try):
                return EXIT_FAILED
            wait_secs = max(_POLL_SECS, every_secs)
        if is_last:
            time.sleep(min(wait_secs, _POLL_SECS))
        else:
            is_finishing.wait(min(wait_secs, every_secs))


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
    import_tensorflow(verbose=False)
    return _write(model_dir, every_secs, is_finishing)


if __name__ == "__main__":
    os._exit(main(sys.argv[1], float(sys.argv[2])))
