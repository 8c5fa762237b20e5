"""The fault of a record that TensorFlow cannot parse, in words for the user, from the text of TensorFlow's error.

    fault_in("Field 1 in record 0 is not a valid int32: x", b"7,x")     # "column 2 is 'x', which is not a valid int32"
    fault_in("a text of another kind", b"7,x")                          # None

The texts are those of `tf.io.decode_csv`, `tf.strings.to_number`, `tf.io.parse_example` and `tf.io.decode_raw`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ps_train.base.errors import shown

_DELIMITERS = (b",", b"\t", b";", b"|", b" ")
_NAME = r"(?:Key|Feature): (?P<name>.+?)"
_FEATURE = rf"{_NAME}(?:, Index: \d+)?\.\s+"
_WRONG_TYPE = rf"{_FEATURE}Data types don't match\. "
_MOST_VALUES = 5


def fault_in(text: str, record: bytes | None = None) -> str | None:
    """Returns the fault that an error's text tells of, or None if it tells of another one.

    Args:
      text: of the error.
      record: the record; None if it is not known.
    """
    for pattern, words in _FAULTS:
        if found := re.search(pattern, text):
            return words(found, record)
    return None


def _column_of(value: str, record: bytes | None) -> str:
    """Returns the column that holds a value, if there is one such column; the record's delimiter is not known."""
    for delimiter in _DELIMITERS if record is not None else ():
        fields = (record or b"").split(delimiter)
        if len(fields) > 1 and fields.count(value.encode()) == 1:
            return f"column {fields.index(value.encode()) + 1} is "
    return ""


def _line(record: bytes | None) -> str:
    return "" if record is None else f" ({shown(record)})"


def _values_of(record: bytes | None, name: str) -> str:
    """Returns the values of a feature of a serialized `tf.train.Example`, or "" if they are not known."""
    import tensorflow as tf

    if record is None:
        return ""
    feature = tf.train.Example.FromString(record).features.feature[name]
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    more = ", ..." if len(values) > _MOST_VALUES else ""
    return f" [{', '.join(map(repr, values[:_MOST_VALUES]))}{more}],"


_FAULTS: list[tuple[str, Callable[[re.Match[str], bytes | None], str]]] = [
    (
        r"Expect (\d+) fields but have (\d+) in record",
        lambda found, record: f"{found[2]} columns instead of {found[1]}{_line(record)}",
    ),
    (
        r"Field (\d+) in record \d+ is not a valid (\w+): ([^\n]*?)(?: \[Op:|\n|\n?\t? \[\[|$)",
        lambda found, _: f"column {int(found[1]) + 1} is {shown(found[3])}, which is not a valid {found[2]}",
    ),
    (
        r"Field (\d+) is required but missing in record",
        lambda found, _: f"column {int(found[1]) + 1} is empty, and has no default value",
    ),
    (
        r"Quoted field has to end with quote",
        lambda _, record: (
            f"a quoted field does not end before a delimiter or the line's end{_line(record)}; no field may contain a "
            "line end"
        ),
    ),
    (
        r"Unquoted fields cannot have quotes",
        lambda _, record: f"a field that does not begin with a quote has one inside{_line(record)}",
    ),
    (
        r"StringToNumberOp could not correctly convert string: ([^\n]*?)(?: \[Op:|\n|\n?\t? \[\[|$)",
        lambda found, record: f"{_column_of(found[1], record)}{shown(found[1])}, which is not a number",
    ),
    (
        r"Could not parse example input|Can't parse serialized Example",
        lambda _, record: f"not a tf.train.Example{_line(record)}",
    ),
    (
        rf"{_NAME} \(data type: (?P<dtype>\w+)\) is required but could not be found",
        lambda found, _: f"feature {found['name']!r} is missing: {found['dtype']} is expected",
    ),
    (
        rf"{_WRONG_TYPE}Data type: (?P<is>\w+) but expected type: (?P<dtype>\w+)",
        lambda found, record: _wrong_type(found, record),
    ),
    (
        rf"{_WRONG_TYPE}Expected type: (?P<dtype>\w+), Actual type: (?P<is>\w+)",
        lambda found, record: _wrong_type(found, record),
    ),
    (
        rf"{_FEATURE}Number of (?P<dtype>\w+) values != expected\.\s+[Vv]alues size: (?P<is>\d+) "
        r"but output shape: (?P<shape>\[.*?\])",
        lambda found, record: _wrong_number(found, record),
    ),
    (
        rf"{_FEATURE}Number of (?P<dtype>\w+) values is not a multiple of stride length\. "
        r"Saw (?P<is>\d+) values but output shape is: (?P<shape>\[.*?\])",
        lambda found, record: _wrong_number(found, record),
    ),
    (
        r"Input to DecodeRaw has length (\d+) that is not a multiple of (\d+), the size of (\w+)",
        lambda found, _: f"{found[1]} bytes, which is not a multiple of {found[2]}, the size of {found[3]}",
    ),
]
"""Patterns of errors to words for them."""


def _wrong_type(found: re.Match[str], record: bytes | None) -> str:
    values = _values_of(record, found["name"])
    return f"feature {found['name']!r} has{values} {found['is']} values instead of {found['dtype']}"


def _wrong_number(found: re.Match[str], record: bytes | None) -> str:
    values = _values_of(record, found["name"])
    count = f"{found['is']} value{'' if found['is'] == '1' else 's'}"
    shape = f"which do not fit the shape {found['shape']}"
    return f"feature {found['name']!r} has{values} {count} of {found['dtype']}, {shape}"
