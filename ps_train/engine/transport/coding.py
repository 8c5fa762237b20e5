"""The encoding of everything that one replica pulls and pushes.

coding = coding_of(job, replica.index, momenta={})
Transport(plan, model_variables, variables, coding=coding)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence

import tensorflow as tf

from ps_train.config.codec_spec import AUTO_CODECS, CASTS, INT8, CodecSpec, parse_codec
from ps_train.config.job import Job
from ps_train.data.pipeline import derived_seed
from ps_train.engine.transport.codecs.cast import Cast
from ps_train.engine.transport.codecs.chosen import Chosen
from ps_train.engine.transport.codecs.codec import Codec, CodecChain
from ps_train.engine.transport.codecs.feedback import Momentum
from ps_train.engine.transport.codecs.int8 import Int8
from ps_train.engine.transport.codecs.top_k import TopK
from ps_train.engine.transport.parcels import Parcel, narrowed, pack, pack_encoded
from ps_train.engine.transport.pull_encoding import PullEncoding
from ps_train.engine.transport.push_encoding import PushEncoding
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
class Coding:
    """The encoding of one replica's pulls and pushes; only float32 is encoded.

    Attributes:
      pulled: encoding of values, tables' rows too; None: they travel as they are.
      kept_as: dtype of the values that `Transport.pull` returns in the place of float32, if they travel in it.
      pushed: codec of dense gradients.
      rows: codec of the gradients of tables' rows.
      momenta: variable name to momentum, for variables whose velocity the worker adds up.
      seed: seed of random choices in pushes.
    """

    pulled: PullEncoding | None = None
    kept_as: tf.DType = tf.float32
    pushed: Codec | None = None
    rows: Codec | None = None
    momenta: Mapping[str, Momentum] = dataclasses.field(default_factory=dict)
    seed: int = 0

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

    def is_encoded(self, piece: Slice, sparse: Collection[str]) -> bool:
        """Returns whether the gradient of a slice is encoded.

        A gradient that touches only some rows is not: what is kept of the others would change them, too.

        Args:
          piece: the slice.
          sparse: names of the variables with such a gradient.
        """
        return self.pushed is not None and piece.dtype == "float32" and piece.variable not in sparse

    def encoded_parcels(self, slices: Sequence[Slice], ps: int, sparse: Collection[str]) -> list[Parcel]:
        """Returns the parcels of the slices of one ps whose gradients are encoded; a parcel is of one momentum."""
        if self.pushed is None:
            return []
        encoded = [piece for piece in slices if self.is_encoded(piece, sparse)]
        momenta = list(dict.fromkeys(self.momenta.get(piece.variable) for piece in encoded))
        groups = [[p for p in encoded if self.momenta.get(p.variable) == momentum] for momentum in momenta]
        return [parcel for group in groups for parcel in pack_encoded(group, ps, self.pushed.multiple)]

    def encoding_of(self, parcels: Sequence[Parcel]) -> PushEncoding | None:
        """Makes the encoding of the pushes to one ps, on the worker; None if nothing of them is encoded."""
        is_encoded = any(parcel.is_encoded for parcel in parcels)
        return PushEncoding(parcels, self.pushed, self.momenta) if self.pushed and is_encoded else None


NO_CODING = Coding()


def coding_of(job: Job, replica: int, momenta: Mapping[str, Momentum], number: tf.Tensor | None = None) -> Coding:
    """Returns the encoding that the job asks for, of one replica.

    Args:
      job: names the codecs and the compute dtype.
      replica: index of the replica.
      momenta: variable name to momentum, for variables whose velocity the worker adds up.
      number: int64 scalar, the place in AUTO_CODECS of the codec of this step's push; None: push_codec names one.
    """
    pulled = codec_of(job.pull_codec)
    pull_encoding = PullEncoding(pulled, derived_seed(job.seed, "pull")) if pulled else None
    seed = derived_seed(job.seed, "codec", replica)
    kept_as = tf.as_dtype(job.compute_dtype)
    if number is not None:
        chosen = Chosen([codec_of(text) for text in AUTO_CODECS], number)
        return Coding(pull_encoding, kept_as, chosen, chosen, momenta, seed)
    return Coding(pull_encoding, kept_as, codec_of(job.push_codec), row_codec_of(job.push_codec), momenta, seed)
