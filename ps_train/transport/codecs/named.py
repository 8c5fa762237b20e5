"""The codecs that a job asks for by name."""

from __future__ import annotations

import tensorflow as tf

from ps_train.config.codec_spec import CASTS, INT8, CodecSpec, parse_codec
from ps_train.transport.codecs.cast import Cast
from ps_train.transport.codecs.codec import Chain, Codec
from ps_train.transport.codecs.int8 import Int8
from ps_train.transport.codecs.top_k import TopK


def codec_of(text: str) -> Codec | None:
    """Returns the codec of a valid --push_codec; None for none."""
    codecs = [_codec(spec) for spec in parse_codec(text)]
    return Chain(*codecs) if len(codecs) > 1 else next(iter(codecs), None)


def row_codec_of(text: str) -> Codec | None:
    """Returns the codec of the gradients of tables' rows, whose number differs from step to step; None for none.

    top_k does not choose among them: only the rows of a batch travel, and what is not sent would have to be kept for
    every row of a table.
    """
    codecs = [_codec(spec) for spec in parse_codec(text) if spec.share is None]
    return next(iter(codecs), None)


def _codec(spec: CodecSpec) -> Codec:
    if spec.name in CASTS:
        return Cast(tf.as_dtype(spec.name))
    if spec.name == INT8:
        return Int8()
    assert spec.share is not None, "only top_k is left"
    return TopK(spec.share)
