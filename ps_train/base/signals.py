"""Events of a task's main thread, which waits for signals while a second thread trains.

Only a main thread that waits in Python handles signals; one inside TensorFlow does not.

    events = MainThreadEvents()                # installs the signal handlers
    events.wait()                              # until an event
    events.signum, events.terminal_error       # the event
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from ps_train.base.errors import exit_code_of_signal

_Result = TypeVar("_Result")

GRACE_SECS = 9.0
"""Seconds from the first signal to the end of the process, even if a thread hangs."""


def exit_on_signals() -> None:
    """Makes SIGINT and SIGTERM end the process at once, with 130 or 143.  Before training there is nothing to save."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda got, frame: os._exit(exit_code_of_signal(got)))


class MainThreadEvents:
    """The events that the main thread must handle.  The second SIGINT or SIGTERM ends the process at once.

    Made in another thread, it gets no signals: Python delivers them to the main thread.

    Attributes:
      signum: the first signal received, else None.
      terminal_error: an exception for how the job ended, or why it must end; set by `set_terminal_error`.
      stop: set when the training thread should park at the next opportunity.
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
        self._before: dict[int, Any] = {}
        self._timer: threading.Timer | None = None
        self._work: collections.deque[Callable[[], None]] = collections.deque()
        self._is_working = False
        if threading.current_thread() is threading.main_thread():
            self._wakeup_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
            self._before = {signum: signal.signal(signum, self._handle) for signum in (signal.SIGINT, signal.SIGTERM)}

    def close(self) -> None:
        """Restores the signal handlers that were there before; for a process that goes on after its task."""
        self.stop.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._before:
            signal.set_wakeup_fd(self._wakeup_before)
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            os._exit(exit_code_of_signal(signum))
        self.signum = signum
        # The timer bounds everything that the main thread then waits for.
        self._timer = threading.Timer(GRACE_SECS, os._exit, [exit_code_of_signal(signum)])
        self._timer.daemon = True
        self._timer.start()
        if self._is_working:
            raise KeyboardInterrupt  # the work need not end before the process

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Runs `work` in the thread that waits; returns its result, or raises its error.  From another thread only."""
        done = threading.Event()
        result: list[_Result] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                result.append(work())
            except BaseException as error:
                errors.append(error)
            done.set()

        self._work.append(run)
        self.wake()
        done.wait()
        if errors:
            raise errors[0]
        return result[0]

    def set_terminal_error(self, error: BaseException) -> None:
        """Sets the terminal error, from any thread; the first one counts."""
        if self.terminal_error is None:
            self.terminal_error = error
        self.wake()

    def wake(self) -> None:
        """Makes `wait` return, from any thread."""
        with contextlib.suppress(BlockingIOError):  # full: `wait` returns in any case
            os.write(self._write_end, b"\0")

    def wait(self) -> None:
        """Waits until a signal, a terminal error or a wake-up."""
        select.select([self._read_end], [], [])
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 1 << 12):
                pass
        while self._work:
            self._is_working = True
            try:
                self._work.popleft()()
            finally:
                self._is_working = False
