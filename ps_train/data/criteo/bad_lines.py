r"""The fault of a malformed line of the Criteo format.

    describe_error(b"1\tx")     # "2 columns instead of 40"

Standard library only.
"""

from __future__ import annotations

import re

from ps_train.base.errors import shown
from ps_train.data.criteo.format import COLUMNS, INTEGERS

INTEGER = "-?[0-9]{1,18}"
CATEGORY = "[0-9a-fA-F]{1,8}"
LINE = f"[01](?:\t(?:{INTEGER})?){{{INTEGERS}}}(?:\t(?:{CATEGORY})?){{{COLUMNS - 1 - INTEGERS}}}"
"""Regular expression of a well-formed line, valid in Python and in TensorFlow."""


def describe_error(line: bytes) -> str:
    """Returns the first fault of a line that does not match LINE, for a message."""
    fields = line.decode("utf-8", "backslashreplace").split("\t")
    if len(fields) != COLUMNS:
        hint = ", as in a file without labels" if len(fields) == COLUMNS - 1 else ""
        return f"{len(fields)} columns instead of {COLUMNS}{hint}"
    if fields[0] not in ("0", "1"):
        return f"the label is {shown(fields[0])} instead of 0 or 1"
    for number, field in enumerate(fields[1:], 1):
        if number <= INTEGERS and field and not re.fullmatch(INTEGER, field):
            return f"integer {number} is {shown(field)}, which is not an integer of up to 18 digits"
        if number > INTEGERS and field and not re.fullmatch(CATEGORY, field):
            expected = "a hexadecimal number of up to 8 digits"
            return f"category {number - INTEGERS} is {shown(field)}, which is not {expected}"
    return "nothing"
