"""Objects of the user's as bytes for another process: functions that make data, and objects that read them.

    there = unpacked(packed("x, a function", make_data))

cloudpickle sends also what was defined in a notebook or in the program itself.  Without it, pickle sends the name, and
the other process imports the module.  The bytes are code: only those of an own process may be unpacked.
"""

from __future__ import annotations

import pickle
import pickletools
import sys
from typing import Any

from ps_train.base.errors import DataError


def packed(what: str, value: Any) -> bytes:
    """Returns an object as bytes.

    Args:
      what: the object, for the error.
      value: the object.

    Raises:
      DataError: it cannot be sent.
    """
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    try:
        found = (cloudpickle or pickle).dumps(value)
    except Exception as error:  # of any method of the object
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise _not_sent(what, f"cannot be pickled ({cause})") from None
    if cloudpickle is None and any(given == "__main__" for _, given, _ in pickletools.genops(found)):
        raise _not_sent(what, "is defined in the program itself, and cloudpickle is not installed")
    return pickle.dumps((sys.path, found))


def _not_sent(what: str, cause: str) -> DataError:
    return DataError(
        f"{what}, {cause}: put a function without arguments that makes the data into a module, and give fit the "
        "function; or pip install cloudpickle."
    )


def unpacked(data: bytes) -> Any:
    """Returns the object of `packed`; modules are also looked for where the sending process found them."""
    path, found = pickle.loads(data)
    sys.path += [place for place in path if place not in sys.path]
    return pickle.loads(found)
