"""Outputs that the user asked for and that could not be written: told at once, and by the exit code at the end.

    lose(f"events_json={path}", error)      # a warning, once for each output; training continues
    check_outputs()                         # at the end of a job that is done: raises ConfigError

A job that is done has exit code 0 only if all its outputs are complete.  It is an error of the configuration, because
another start of the job would not write them either.  Standard library only.
"""

from __future__ import annotations

import logging
import threading

from ps_train.base.errors import ConfigError, headline

log = logging.getLogger(__name__)

_lost: dict[str, str] = {}
_losing = threading.Lock()
"""Several threads may meet a full disk at once; one of them warns."""


def lose(output: str, error: BaseException) -> None:
    """Notes that an output is not complete, and warns of it once.

    Args:
      output: the flag and its value, "profile=100:5".
      error: the reason.
    """
    cause = (getattr(error, "strerror", None) or headline(error)).rstrip(".")
    with _losing:
        is_known = output in _lost
        _lost.setdefault(output, cause)
    if not is_known:
        log.warning("%s cannot be written: %s; training continues without it", output, cause)


def check_outputs() -> None:
    """Raises ConfigError if an output is not complete.  Later calls know nothing of it."""
    lost = dict(_lost)
    _lost.clear()
    if lost:
        told = ", ".join(f"{output} ({cause})" for output, cause in lost.items())
        raise ConfigError(f"the training is done, but not all of its outputs are written: {told}; use another place.")
