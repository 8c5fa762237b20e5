"""The interface of a codec, and the chain of two."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import tensorflow as tf


class Codec(abc.ABC):
    """A way in which a vector travels: the sender encodes it into a few tensors, the receiver decodes these.

    A codec has no state and makes no variables: equal vectors and seeds give equal tensors.

    Attributes:
      dtypes: dtypes of the tensors of an encoded vector.
      multiple: a vector whose length is a multiple of it is encoded without being copied first.
    """

    dtypes: tuple[tf.DType, ...]
    multiple = 1

    def is_exact(self) -> tf.Tensor | None:
        """Returns True (bool scalar) in the steps in which every vector arrives as it was; None: in no step."""
        return None

    def is_lossless_for(self, dtype: tf.DType) -> bool:
        """Returns whether a vector whose values are all of this dtype arrives as it was."""
        return False

    @abc.abstractmethod
    def encode(self, vector: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Encodes a vector, on the sender's device.

        Args:
          vector: float32 [n], finite.
          seed: int32 [2], seed of random choices.

        Returns:
          One vector for each of `dtypes`.
        """

    @abc.abstractmethod
    def decode(self, parts: Sequence[tf.Tensor], length: tf.Tensor | int) -> tf.Tensor:
        """Decodes a vector, on the receiver's device.

        Args:
          parts: the result of `encode`.
          length: length of the vector, n.

        Returns:
          float32 [n].
        """


class CodecChain(Codec):
    """A codec whose first tensor is encoded by a second codec.

    Args:
      first: encodes the vector; its first dtype is float32.
      second: encodes the first tensor of the result.
    """

    def __init__(self, first: Codec, second: Codec) -> None:
        self._first, self._second = first, second
        self._rest = len(first.dtypes) - 1
        self.dtypes = (*first.dtypes[1:], *second.dtypes)

    def encode(self, vector: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the tensors of `first` but its first one, then those of `second`."""
        values, *rest = self._first.encode(vector, seed)
        return (*rest, *self._second.encode(values, seed))

    def decode(self, parts: Sequence[tf.Tensor], length: tf.Tensor | int) -> tf.Tensor:
        """Decodes the tensors of `second`, then those of `first`."""
        rest = parts[: self._rest]
        values = self._second.decode(parts[self._rest :], tf.size(rest[0]))
        return self._first.decode([values, *rest], length)
