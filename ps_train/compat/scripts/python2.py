"""Advice for an error that shows that a program was written for Python 2.

    advice(error)       # "train.py was written for Python 2 ...", or ""

TensorFlow itself no longer runs on Python 2, and a converted program should be read: its divisions and texts may mean
something else.  So nothing is converted here.
"""

from __future__ import annotations

import os
import re
import traceback

_SYNTAX = ("Missing parentheses in call to", "multiple exception types must be parenthesized", "leading zeros in")
_LINE = re.compile(r"<>|`|\braise\s+\w+\s*,|\bexcept\s+[\w.]+\s*,\s*\w+|\bur[\"']|\bprint\s*>>")
_NAMES = {"basestring", "cmp", "execfile", "long", "raw_input", "reduce", "reload", "unichr", "unicode", "xrange"}
_METHODS = {"has_key", "iteritems", "iterkeys", "itervalues"}
_MODULES = {"ConfigParser", "HTMLParser", "Queue", "StringIO", "cPickle", "commands", "httplib", "urllib2", "urlparse"}


def advice(error: BaseException) -> str:
    """Returns one line for the error of a program that was written for Python 2; "" for another error."""
    if not _is_of_python_2(error):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    place = error.filename if isinstance(error, SyntaxError) else frames[-1].filename if frames else None
    return (
        f"{os.path.basename(place or 'the program')} was written for Python 2, and TensorFlow runs on Python 3: "
        "convert the program first, as with `python -m lib2to3 -w .` of Python 3.12 or earlier."
    )


def _is_of_python_2(error: BaseException) -> bool:
    if isinstance(error, SyntaxError):
        is_known = isinstance(error, TabError) or str(error.msg).startswith(_SYNTAX)
        return is_known or (error.msg == "invalid syntax" and _LINE.search(error.text or "") is not None)
    if isinstance(error, ModuleNotFoundError):
        return error.name in _MODULES
    if isinstance(error, NameError):
        return error.name in _NAMES
    return isinstance(error, AttributeError) and error.name in _METHODS and isinstance(error.obj, dict)
