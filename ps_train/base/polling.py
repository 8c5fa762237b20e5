"""Polling of a condition, with a deadline and a pause; lines about a call that takes long.

poll_until(group.is_idle, time.monotonic() + 1, pause_secs=0.1)     # False: it was not idle in time
with told_while_running("data()"):                                  # a line for every ten seconds that it takes
    data = model.data("train", "")
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)


def poll_until(condition: Callable[[], bool], deadline: float, pause_secs: float) -> bool:
    """Calls `condition` until it returns True; returns False if it has not done so by the deadline.

    The last call is after the deadline, so the condition is called at least once, and after every pause.

    Args:
      condition: a function without arguments; an error that it raises ends the polling.
      deadline: seconds of the monotonic clock; `math.inf` for none.
      pause_secs: seconds between two calls.
    """
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_secs)
    return True


@contextlib.contextmanager
def told_while_running(what: str, every_secs: float = 10.0) -> Iterator[None]:
    """Logs that something still runs, for as long as the body runs.

    Args:
      what: what runs, the subject of the line.
      every_secs: seconds between two lines, and before the first one.
    """
    ended, begin = threading.Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(every_secs):
            log.info("%s has been running for %.0fs", what, time.monotonic() - begin)

    threading.Thread(target=tell, daemon=True, name="told_while_running").start()
    try:
        yield
    finally:
        ended.set()
