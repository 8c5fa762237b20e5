"""Polling of a condition, with a deadline and a pause.

poll_until(group.is_idle, time.monotonic() + 1, pause_secs=0.1)         # False: it was not idle in time
"""

from __future__ import annotations

import time
from collections.abc import Callable


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
