"""The codecs that a job names, and the encoding of what a replica pulls.

codec = codec_of("top_k:0.01,int8")
coding = pull_coding_of(job)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Sequence

import tensorflow as tf

from ps_train.config.codec_spec import CASTS, INT8, CodecSpec, parse_codec
from ps_train.config.job import Job
from ps_train.data.pipeline import derived_seed
from ps_train.engine.transport.codecs.cast import Cast
from ps_train.engine.transport.codecs.codec import Codec, CodecChain
from ps_train.engine.transport.codecs.int8 import Int8
from ps_train.engine.transport.codecs.top_k import TopK
from ps_train.engine.transport.parcels import Parcel, narrowed, pack, pack_encoded
from ps_train.engine.transport.pull_encoding import PullEncoding
from ps_train.engine.variables.plan import Slice


def codec_of(text: str) -> Codec | None:
    """Returns the codec of a valid --push_codec other than auto; None for none."""
    codecs = [_codec(spec) for spec in parse_codec(text)]
    return CodecChain(*codecs) if len(codecs) > 1 else next(iter(codecs), None)


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


@dataclasses.dataclass(frozen=True)
class PullCoding:
    """The encoding of what a replica pulls; only float32 is encoded.

    Attributes:
      pulled: encoding of values, tables' rows too; None: they travel as they are.
      kept_as: dtype of the values that `Transport.pull` returns in the place of float32, if they travel in it.
    """

    pulled: PullEncoding | None = None
    kept_as: tf.DType = tf.float32

    @property
    def pulled_as(self) -> tf.DType:
        """The dtype in which float32 values travel to the worker, where they are not encoded otherwise."""
        return (self.pulled and self.pulled.dtype) or tf.float32

    def pulled_parcels(self, slices: Sequence[Slice], ps: int, state: Collection[str]) -> list[Parcel]:
        """Returns the parcels in which slices of one ps are pulled.

        Args:
          slices: those of this ps.
          ps: index of the ps.
          state: names of the variables that the model assigns itself.  It adds to them, where rounding would add up.
        """

        def is_coded(piece: Slice) -> bool:
            return piece.dtype == "float32" and piece.variable not in state

        if self.pulled is None or self.pulled.dtype is not None:
            return pack([narrowed(piece, self.pulled_as) if is_coded(piece) else piece for piece in slices], ps)
        coded, plain = filter(is_coded, slices), itertools.filterfalse(is_coded, slices)
        return pack_encoded([*coded], ps, self.pulled.codec.multiple) + pack([*plain], ps)


NO_CODING = PullCoding()


def pull_coding_of(job: Job) -> PullCoding:
    """Returns the encoding of pulls that the job asks for."""
    pulled = codec_of(job.pull_codec)
    encoding = PullEncoding(pulled, derived_seed(job.seed, "pull")) if pulled else None
    return PullCoding(encoding, tf.as_dtype(job.compute_dtype))
