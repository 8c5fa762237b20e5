"""The end of the program that this process runs, and whether an exception was the reason.

    tell_at_the_end(finish)             # finish(None), or finish(error); returns the exit code

`atexit` comes too late, when no thread can be started, and does not tell of exceptions.  Standard library only.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

Finish = Callable[[BaseException | None], int]
"""Function of the exception that ended the program, or None; returns the exit code, 0 for that of the program."""

_waiting: list[Finish] = []
_errors: list[BaseException] = []


def tell_at_the_end(finish: Finish) -> None:
    """Has a function called once, when the program has ended."""
    if not _waiting:
        _note_exceptions()
        # Private to typeshed alone.  It runs before the threads of concurrent.futures end, and `atexit` after that.
        threading._register_atexit(_end_process)  # type: ignore[attr-defined]
    _waiting.append(finish)


def program_has_ended(error: BaseException | None) -> int:
    """Tells all who wait; returns the first exit code that is not 0, or 0.

    Args:
      error: the exception that ended the program, or None.
    """
    codes = [0]
    while _waiting:
        codes.append(_waiting.pop()(error))
    return next((code for code in codes if code), 0)


def _note_exceptions() -> None:
    before = sys.excepthook

    def noted(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        _errors.append(error)
        before(kind, error, trace)

    sys.excepthook = noted


def _end_process() -> None:
    if code := program_has_ended(_errors[-1] if _errors else None):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
