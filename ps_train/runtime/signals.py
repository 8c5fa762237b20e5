"""The main thread of a training task: it watches while a second thread trains, because only a main thread that waits in
Python hears signals; one that is inside TensorFlow does not.

    attention = Attention()                    # installs the signal handlers
    attention.wait()                           # until something happened
    attention.signum, attention.verdict        # what it was
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from types import FrameType

from ps_train.errors import exit_code_of_signal

GRACE_SECS = 9.0
"""From the first signal to the end of the process, whatever hangs."""


def exit_on_signals() -> None:
    """Before training there is nothing to save: SIGINT and SIGTERM end the process at once, with 130 or 143."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda got, frame: os._exit(exit_code_of_signal(got)))


class MainThreadEvents:
    """What the main thread must react to.  The second SIGINT or SIGTERM ends the process on the spot.

    Attributes:
      signum: the first signal received, else None.
      verdict: an exception that says how the job ended, or that it must end; set by `raise_verdict`.
      stop: set when the training thread is to come to rest at the next opportunity.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.terminal_error: BaseException | None = None
        self.stop = threading.Event()
        # A pipe, not an Event: the kernel may give a signal to another thread, which does not end the main thread's
        # wait for a lock; and a handler that runs while its own thread holds that lock would wait for itself.
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self._handle)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            os._exit(exit_code_of_signal(signum))
        self.signum = signum
        # A deadline of its own: nothing that the main thread then waits for may exceed it.
        timer = threading.Timer(GRACE_SECS, os._exit, [exit_code_of_signal(signum)])
        timer.daemon = True
        timer.start()

    def set_terminal_error(self, verdict: BaseException) -> None:
        """From any thread; the first one counts."""
        if self.terminal_error is None:
            self.terminal_error = verdict
        self.wake()

    def wake(self) -> None:
        """From any thread: look again."""
        with contextlib.suppress(BlockingIOError):  # full: it will look again
            os.write(self._write_end, b"\0")

    def wait(self) -> None:
        """Until a signal, a verdict or a wake-up."""
        select.select([self._read_end], [], [])
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 1 << 12):
                pass
