"""Strategies of Hypothesis: valid texts with something wrong in them."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 65536, 2**31, 2**63, 10**50, 1.5, float("nan"), float("inf"), -0.0, 1e308,
    "", " ", "\0", "a\0b", "\ud800", "\x1b[31m", "line\nline", "é" * 100, "x" * 5000, "\u2028", "٣", "²", "0x10", "-1",
    "1e999", "__class__", "../../etc/passwd", "a:2222", "a:99999", "[::1]:2222", ":", "::", "0=a:1", "dns:x:1",
    [], {}, [[]], {"": ""}, {"0": "a:1", "00": "b:1"}, {"0": 1, "00": "b:1"}, ["a:1"] * 50, [None], [["a:1"]],
]  # fmt: skip

RAW = [
    "", "[" * 100_000, '{"a":' * 3000, "[" * 70 + "]" * 70, "1" * 5000, "-" + "9" * 41, "1e999", "NaN", "-Infinity",
    '{"ps": [], "ps": ["a:1"]}', '{"task": {}, "task": {}}', '"\\ud800"', '"\\u0000"', "\ufeff{}", "{}{}", "nul",
    '{"cluster": ' + "[" * 60 + "]" * 60 + "}", "\0", "é", "\udcff",
]  # fmt: skip

_scalars = st.sampled_from(NASTY).map(copy.deepcopy) | st.text(max_size=20) | st.integers() | st.floats()
values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in items for found in _places(inner, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn, valid: Any) -> Any:
    """A valid JSON value in which some parts are others, missing or new."""
    found = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(_places(found)[1:] or [(None,)]))
        if last is None:
            return draw(values)
        place = found
        for key in above:
            place = place[key]
        what = draw(st.sampled_from(["other", "missing", "new"]))
        if what == "missing":
            del place[last]
        elif what == "new" and isinstance(place, dict):
            place[draw(st.text(max_size=8))] = draw(values)
        else:
            place[last] = draw(values)
    return found


@st.composite
def cut(draw: st.DrawFn, text: str) -> str:
    """A text of which parts are missing, twice there or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        text = text[:begin] + draw(st.sampled_from(["", text[begin:end] * 2]) | st.text(max_size=6)) + text[end:]
    return text


def json_texts(*valid: Any) -> st.SearchStrategy[str]:
    """JSON texts like these values, and texts that are not JSON."""
    return st.one_of(
        *(changed(value).map(json.dumps) for value in valid),
        *(cut(json.dumps(value)) for value in valid),
        values.map(json.dumps),
        st.sampled_from(RAW),
        st.text(max_size=50),
        st.binary(max_size=50).map(lambda data: data.decode(errors="surrogateescape")),
    )


def texts(*valid: str) -> st.SearchStrategy[str]:
    """Texts like these, and others."""
    nasty = [value for value in NASTY if isinstance(value, str)]
    return st.one_of(*map(cut, valid), st.sampled_from([*valid, *nasty, *RAW]), st.text(max_size=40))


@st.composite
def changed_bytes(draw: st.DrawFn, valid: bytes) -> bytes:
    """Bytes of which some are others, missing or new."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 3))):
        at, what = draw(st.integers(0, len(data))), draw(st.sampled_from(["flip", "cut", "insert", "zero", "repeat"]))
        size = draw(st.sampled_from([1, 2, 4, 16, 256]))
        if what == "flip" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif what == "cut":
            del data[at : draw(st.sampled_from([at + size, len(data)]))]
        elif what == "insert":
            data[at:at] = draw(st.binary(max_size=size))
        elif what == "zero":
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif what == "repeat":
            data[at:at] = data[at : at + size]
    return bytes(data)
