"""Calls of the user's code: an exception becomes a ModelError of one line, with the place in that code.

    with user_code("forward()"):
        outputs = model.forward(features, True)

    forward() raised KeyError: 'user' (model.py, line 12, in forward: raise KeyError('user'))

Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ps_train.errors import ModelError, PsTrainError
from ps_train.errors.user_code import describe

_MOST = 60


@contextlib.contextmanager
def user_code(what: str) -> Iterator[None]:
    """Runs the user's code in the body.

    Args:
      what: name of the called method, for the error.

    Raises:
      ModelError: the code raised an exception, or called sys.exit.  An error of this package passes through.
    """
    try:
        yield
    except PsTrainError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{what} raised {describe(error)}") from error


def shown(value: object) -> str:
    """Returns a short text for a value of the wrong type: its type and value in one line."""
    if value is None or isinstance(value, bool):
        return repr(value)
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = ""
    kind = type(value).__name__
    text = text if len(text) <= _MOST else text[: _MOST - 3] + "..."
    return f"{kind} {text}" if text and not text.startswith(("<", kind)) else text or kind
