"""Texts of --pull_codec and --push_codec: the names of codecs, joined by a comma.

parse_codec("top_k:0.01,int8")      # [("top_k", 0.01), ("int8", None)]
parse_codec("none")                 # []
"""

from __future__ import annotations

from typing import NamedTuple

NONE = "none"
CASTS = ("bfloat16", "float16")
INT8, TOP_K = "int8", "top_k"

_INT8_BYTES = 1 + 4 / 256
"""A number, and its part of the scale of its block."""
_POSITION_BYTES = 2
"""Position of a value that top_k sends."""


class CodecSpec(NamedTuple):
    """A codec: its name, and for top_k the share of the values that are sent, 0..1."""

    name: str
    share: float | None = None


def parse_codec(text: str) -> list[CodecSpec]:
    """Returns the codecs in the order of their encoding; an empty list for none.

    Raises:
      ValueError: the text is not valid.
    """
    if text == NONE:
        return []
    if text != text.strip():
        raise ValueError(text)
    codecs = [_parse_one(one.strip()) for one in text.split(",")]
    if [codec.name for codec in codecs[1:]] not in ([], [INT8], ["bfloat16"], ["float16"]):
        raise ValueError(text)
    if len(codecs) > 1 and codecs[0].name != TOP_K:
        raise ValueError(text)
    return codecs


def bytes_per_value(text: str) -> float:
    """Returns the bytes that a float32 value takes on the wire with the codecs of a valid text, on average."""
    sent, size, more = 1.0, 4.0, 0.0
    for codec in parse_codec(text):
        if codec.share is not None:
            sent, more = codec.share, _POSITION_BYTES
        else:
            size = _INT8_BYTES if codec.name == INT8 else 2.0
    return sent * (size + more)


def _parse_one(text: str) -> CodecSpec:
    name, colon, share = text.partition(":")
    if name == TOP_K and colon and 0 < float(share) <= 1:
        return CodecSpec(name, float(share))
    if colon or name not in (*CASTS, INT8):
        raise ValueError(text)
    return CodecSpec(name)
