"""The codecs that a job names.

codec = codec_of("top_k:0.01,int8")
encoding = pull_encoding_of(job)
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.config.codec_spec import CASTS, INT8, NONE, CodecSpec, parse_codec
from ps_train.config.job import Job
from ps_train.data.pipeline import derived_seed
from ps_train.engine.transport.codecs.cast import Cast
from ps_train.engine.transport.codecs.codec import Codec, CodecChain
from ps_train.engine.transport.codecs.int8 import Int8
from ps_train.engine.transport.codecs.top_k import TopK
from ps_train.engine.transport.pull_encoding import PLAIN, CastPulls, CodedPulls, PullEncoding


def codec_of(text: str) -> Codec:
    """Returns the codec of a valid --push_codec other than none and auto."""
    first, *others = [_codec(spec) for spec in parse_codec(text)]
    return CodecChain(first, *others) if others else first


def row_codecs_of(text: str) -> list[Codec]:
    """Returns the codec of the gradients of tables' rows, whose number differs from step to step: none, or one.

    top_k does not choose among them: only the rows of a batch travel, and what is not sent would have to be kept for
    every row of a table.
    """
    return [_codec(spec) for spec in parse_codec(text) if spec.share is None]


def _codec(spec: CodecSpec) -> Codec:
    if spec.name in CASTS:
        return Cast(tf.as_dtype(spec.name))
    if spec.name == INT8:
        return Int8()
    assert spec.share is not None, "only top_k is left"
    return TopK(spec.share)


def pull_encoding_of(job: Job) -> PullEncoding:
    """Returns the encoding of pulls that the job asks for."""
    if job.pull_codec == NONE:
        return PLAIN
    codec, seed = codec_of(job.pull_codec), derived_seed(job.seed, "pull")
    return CastPulls(codec, seed) if job.pull_codec in CASTS else CodedPulls(codec, seed)
