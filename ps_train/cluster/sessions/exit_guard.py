"""Calls of TensorFlow at the end of the process.

Python ends threads at its exit by force.  A thread that is inside of TensorFlow then aborts the process.  So no call
begins any more at the exit, and those that run are waited for.

    with running_call():
        session.run(fetches)
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Iterator

_WAIT_SECS, _POLL_SECS = 5.0, 0.02

_lock = threading.Lock()
_running = 0
_is_exiting = threading.Event()


@contextlib.contextmanager
def running_call() -> Iterator[None]:
    """Counts a call in the body; in a process that ends it never begins, unless the main thread makes it."""
    global _running
    if _is_exiting.is_set() and threading.current_thread() is not threading.main_thread():
        while True:
            time.sleep(60)
    with _lock:
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1


def _wait() -> None:
    _is_exiting.set()
    deadline = time.monotonic() + _WAIT_SECS
    while _running and time.monotonic() < deadline:
        time.sleep(_POLL_SECS)


atexit.register(_wait)
