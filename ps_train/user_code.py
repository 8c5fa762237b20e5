"""Calls of the user's code: an exception becomes a ModelError of one line, with the place in that code.

    with user_code("forward()"):
        outputs = model.forward(features, True)

    forward() raised KeyError: 'user' (model.py, line 12, in forward)

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator

from ps_train.errors import ModelError, PsTrainError, cause_of

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_MODELS = os.path.join(_PACKAGE, "models")
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_NODE = re.compile(r" for '\{\{node ([^}]*)\}\} = (\w+)\[.*?\]\(.*?\)'")
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
        text = _NODE.sub(r" for \1 (\2)", str(getattr(error, "message", error)))
        cause, name = cause_of(Exception(text)), type(error).__name__
        cause = name if cause == "Exception" else f"{name}: {cause}"
        raise ModelError(f"{what} raised {cause}{_place_of(error)}") from error


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


def _place_of(error: BaseException) -> str:
    """Returns the innermost place in the user's own files, as ` (file.py, line 3, in forward)`; "" without one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_users(frame.filename):
            path = os.path.relpath(frame.filename) if frame.filename.startswith(os.getcwd()) else frame.filename
            return f" ({path}, line {frame.lineno}, in {frame.name})"
    return ""


def _is_users(filename: str) -> bool:
    path = os.path.abspath(filename)
    if "__autograph_generated" in filename or filename.startswith("<frozen"):
        return False
    in_package = path.startswith(_PACKAGE + os.sep) and not path.startswith(_MODELS + os.sep)
    return not in_package and not path.startswith(_LIBRARIES)
