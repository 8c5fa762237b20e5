"""Guards that keep numbers that are not finite from leaving a worker.

The guards check the sum of each vector that is sent, since a sum is finite only if all its terms are.  A vector of a
dtype below 32 bits is checked element by element: its sum could overflow, and widening would copy the whole vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.named_inputs import inputs_of
from ps_train.runtime.precision import is_narrow, widen

NOT_FINITE = "the loss or a gradient is not a finite number"
"""Text of the error that ends a worker's step before anything is sent."""

_INPUTS = " (inputs: "


def stop_if_not_finite(loss: tf.Tensor, vectors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the same vectors; the call fails with NOT_FINITE if the loss or a vector is not finite.

    The error's text also has the inputs of the batch that are not finite; see `bad_inputs`.

    Args:
      loss: scalar.
      vectors: the vectors to send.
    """
    finite, inputs = _finite(loss, vectors), inputs_of(v1.get_default_graph())
    with tf.control_dependencies([v1.cond(finite, tf.no_op, lambda: _fail(inputs))]):
        return [tf.identity(vector) for vector in vectors]


def bad_inputs(text: str) -> str:
    """Returns the inputs in the text of such an error: "1 in labels, 3 in feature age"; "" if all were finite."""
    found = re.search(re.escape(_INPUTS) + r"(.*?)\)", text)
    return found[1].removeprefix(", ") if found else ""


def _fail(inputs: Sequence[tuple[str, tf.Tensor]]) -> tf.Operation:
    text: list[Any] = [NOT_FINITE, _INPUTS]
    for name in dict.fromkeys(name for name, _ in inputs):
        values = [value for other, value in inputs if other == name and value.dtype.is_floating]
        if values:
            bad = tf.add_n([tf.math.count_nonzero(~tf.math.is_finite(widen(value))) for value in values])
            shown = tf.strings.join([", ", tf.as_string(bad), f" in {name}"])
            text.append(tf.where(bad > 0, shown, ""))
    return tf.group(tf.debugging.Assert(False, [tf.strings.join([*text, ")"])]))


def skip_if_not_finite(loss: tf.Tensor, vectors: Sequence[tf.Tensor], otherwise: Sequence[Any]) -> list[tf.Tensor]:
    """Returns the same vectors, or `otherwise` if the loss or a vector is not finite.

    Args:
      loss: scalar.
      vectors: the vectors to send.
      otherwise: for each vector its replacement, of the same shape and dtype.
    """
    finite = _finite(loss, vectors)
    return [tf.where(finite, vector, other) for vector, other in zip(vectors, otherwise, strict=True)]


def are_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns True (bool scalar) if all tensors are finite."""
    return _finite(tf.zeros([]), tensors)


def _finite(loss: tf.Tensor, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    # Sums of different dtypes stay apart, because a float64 sum may be finite where float32 overflows.
    narrow = [vector for vector in vectors if is_narrow(vector.dtype)]
    sums: dict[tf.DType, list[tf.Tensor]] = {}
    for one in [widen(loss), *[tf.reduce_sum(vector) for vector in vectors if not is_narrow(vector.dtype)]]:
        sums.setdefault(one.dtype, []).append(one)
    found = [tf.math.is_finite(tf.add_n(some)) for some in sums.values()]
    found += [tf.reduce_all(tf.math.is_finite(vector)) for vector in narrow]
    return tf.reduce_all(tf.stack(found)) if len(found) > 1 else found[0]
