"""Work beside training that may fail and is tried again: deltas, uploads, tracking, checkpoints.

    side_work.failed("deltas", "No space left on device")     # one warning, until it works again
    side_work.works("deltas")                                 # says so if it had failed
    side_work.failing()                                       # {"deltas": Failure(since, "No space left on device")}
    side_work.note_dead_threads()                             # a thread that dies of an exception counts, too

The state is that of the process.  Health and the status page show it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from ps_train.base.errors import headline

log = logging.getLogger(__name__)


class Failure(NamedTuple):
    """A failure that lasts.

    Attributes:
      since: its beginning, in seconds of the monotonic clock.
      reason: the newest reason.
    """

    since: float
    reason: str


_lock = threading.Lock()
_failing: dict[str, Failure] = {}


def failed(name: str, reason: str, is_told: bool = False) -> None:
    """Notes that work fails; warns when it begins to fail.

    Args:
      name: the work.
      reason: why it fails, as the end of a sentence.
      is_told: the caller has warned.
    """
    with _lock:
        before = _failing.get(name)
        _failing[name] = Failure(time.monotonic() if before is None else before.since, reason)
    if not is_told and before is None:
        log.warning("%s: %s; training continues", name, reason)


def works(name: str, is_told: bool = False) -> None:
    """Notes that work goes well; says so if it had failed."""
    with _lock:
        before = _failing.pop(name, None)
    if before is not None and not is_told:
        log.info("%s: works again, after %.0fs", name, time.monotonic() - before.since)


def failing() -> Mapping[str, Failure]:
    """Returns the work that fails at present."""
    with _lock:
        return dict(_failing)


def forget() -> None:
    """Forgets what has failed in an earlier job of this process."""
    with _lock:
        _failing.clear()


def note_dead_threads() -> None:
    """Counts a thread that dies of an exception as failing work, beside its traceback."""
    before = threading.excepthook
    if getattr(before, "notes_dead_threads", False):
        return

    def note(args: threading.ExceptHookArgs) -> None:
        before(args)
        is_handled = type(args.thread).__module__.startswith("tensorflow.")  # its writers of event files tell us, too
        if args.exc_value is not None and not is_handled and not isinstance(args.exc_value, SystemExit):
            name = args.thread.name if args.thread is not None else "a thread"
            failed(f"thread {name}", f"it has ended ({headline(args.exc_value)})")

    note.notes_dead_threads = True  # type: ignore[attr-defined]
    threading.excepthook = note
