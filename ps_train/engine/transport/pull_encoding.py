"""The encoding of what workers pull: a ps encodes a vector, the worker decodes it.

    encoding = PullEncoding(Int8(), seed)
    wire = encoding.on(ps, number).encode(vector, version)      # on the ps
    (vector,) = encoding.decode(wire, length)                   # on the worker

Nothing is kept of what an encoding leaves out: the ps has the exact value, and the next pull begins with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from ps_train.data.pipeline import derived_seed
from ps_train.engine.transport.codecs.cast import Cast
from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.transport.codecs.wire import as_one, from_one


@dataclasses.dataclass(frozen=True)
class PullEncoding:
    """The encoding of pulled values.

    Attributes:
      seed: seed of random choices, the same on all workers: workers that read the same values get the same numbers.
    """

    codec: Codec
    seed: int

    @property
    def dtype(self) -> tf.DType | None:
        """The dtype to which the codec only rounds, else None."""
        return self.codec.dtypes[0] if isinstance(self.codec, Cast) else None

    def on(self, ps: int, number: int | str) -> PullEncoding:
        """Returns the encoding of one of the vectors on one ps, with random choices of its own."""
        return dataclasses.replace(self, seed=derived_seed(self.seed, ps, number))

    def encode(self, vector: tf.Tensor, version: tf.Tensor, others: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        """Encodes a vector into one tensor, on the device of the caller.

        Args:
          vector: float32 [n].
          version: int64 scalar, which changes when the values do.
          others: vectors that travel with it as they are.
        """
        seed = tf.stack([tf.constant(self.seed, tf.int64), version])
        return as_one([*self.codec.encode(vector, seed), *others])

    def decode(self, wire: tf.Tensor, length: tf.Tensor | int, others: Sequence[tf.DType] = ()) -> list[tf.Tensor]:
        """Returns the vector, float32 [length], and the vectors that travelled with it, which have these dtypes."""
        dtypes = self.codec.dtypes
        parts = from_one(wire, (*dtypes, *others))
        vector = self.codec.decode(parts[: len(dtypes)], length)
        return [tf.ensure_shape(vector, [length if isinstance(length, int) else None]), *parts[len(dtypes) :]]
