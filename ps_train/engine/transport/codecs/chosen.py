"""One of several codecs, chosen anew in each step.

    codec = Chosen([Cast(tf.bfloat16), Int8()])
    codec.number = number                                          # int64 scalar on the worker
    (wire,) = codec.encode(vector, seed)                           # uint8 [n]
    codec.decode([wire], length)                                   # by whichever codec has encoded it

All codecs are in the graph, and a step runs one of them.  The bytes say which one it was, so the receiver needs no
number: workers may differ for a step or two.  A vector without a codec has 4 bytes a value, and nothing is copied.  The
others end with the number of their codec, and never have as many bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import keep_whole
from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.transport.codecs.wire import as_one, bytes_of, from_one, of_bytes

_Branch = Callable[[], tf.Tensor]


class Chosen(Codec):
    """A codec that is one of several, or none.

    Args:
      codecs: the codecs.

    Attributes:
      number: int64 scalar on the sender, the codec of this step, from 1; 0 for none.  Set it before the first use.
    """

    dtypes = (tf.uint8,)

    number: tf.Tensor

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self._codecs = codecs
        self.multiple = max(codec.multiple for codec in self._codecs)

    def is_exact(self) -> tf.Tensor:
        """Returns True in the steps without a codec."""
        return tf.equal(self.number, 0)

    def encode(self, vector: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the vector as bytes, encoded by the codec of this step."""

        def with_codec(number: int) -> _Branch:
            def encoded() -> tf.Tensor:
                if not number:
                    return bytes_of(vector)
                wire = bytes_of(as_one(self._codecs[number - 1].encode(vector, seed)))
                return tf.concat([wire, tf.constant([number], tf.uint8)], 0)

            return encoded

        return (self._one_of(self.number, with_codec),)

    def decode(self, parts: Sequence[tf.Tensor], length: tf.Tensor | int) -> tf.Tensor:
        """Returns the vector."""
        (wire,) = parts
        is_plain = tf.equal(tf.size(wire), 4 * length)

        def with_codec(number: int) -> _Branch:
            def decoded() -> tf.Tensor:
                if not number:
                    return of_bytes(wire, tf.float32)
                codec = self._codecs[number - 1]
                one = codec.dtypes[0] if len(codec.dtypes) == 1 else tf.uint8
                return codec.decode(from_one(of_bytes(wire[:-1], one), codec.dtypes), length)

            return decoded

        # A plain vector may be empty and has no number.
        number = v1.cond(is_plain, lambda: tf.constant(0, tf.int64), lambda: tf.cast(wire[-1], tf.int64))
        return self._one_of(number, with_codec)

    def _one_of(self, number: tf.Tensor, branch: Callable[[int], _Branch]) -> tf.Tensor:
        """Runs the branch of a number."""
        result = branch(len(self._codecs))
        for other in reversed(range(len(self._codecs))):
            result = _either(tf.equal(number, other), branch(other), result)
        return result()


def _either(condition: tf.Tensor, one: _Branch, other: _Branch) -> _Branch:
    def chosen() -> tf.Tensor:
        result = v1.cond(condition, one, other)
        keep_whole(result)  # or the nodes of all codecs would be prepared, and take part in every step
        return result

    return chosen
