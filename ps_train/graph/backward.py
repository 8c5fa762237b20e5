"""Forward and backward: the model is built again, with the pulled values in the variables' place.

    loss, gradients, examples = mean_gradients(model, batches, values, variables, learned, accumulate=1)

Knows nothing of where values come from and where gradients go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.shard import Batches
from ps_train.errors import ModelError
from ps_train.model import Model


def mean_gradients(
    model: Model,
    batches: Batches,
    values: Mapping[str, tf.Tensor],
    variables: Mapping[str, Any],
    learned: Mapping[str, tf.Tensor],
    accumulate: int,
) -> tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]:
    """Loss and gradients, the means over the examples of `accumulate` batches, and the number of those examples.

    Args:
      values: trainable variable name to its pulled value, whole.
      variables: name to variable, for those that are not trainable.
      learned: those of the values that gradients are wanted for.
    """
    losses: list[tf.Tensor] = []
    found: list[list[tf.Tensor]] = []
    sizes: list[tf.Tensor] = []
    for number in range(accumulate):
        if number:
            batches = batches.next(after=found[-1])  # one after the other, so that they need not all fit into memory
        losses.append(_loss(model, batches, values, variables))
        dense = [tf.convert_to_tensor(one) for one in tf.gradients(losses[-1], list(learned.values()))]
        found.append(dense)
        sizes.append(batches.examples)
    if accumulate == 1:
        return losses[0], dict(zip(learned, found[0], strict=True)), sizes[0]
    examples = tf.add_n(sizes)
    shares = [size / tf.maximum(examples, 1.0) for size in sizes]
    means = [_weighted(some, shares) for some in zip(*found, strict=True)]
    return _weighted(losses, shares), dict(zip(learned, means, strict=True)), examples


def _weighted(tensors: Sequence[tf.Tensor], shares: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tensor * tf.cast(share, tensor.dtype) for tensor, share in zip(tensors, shares, strict=True)])


def _loss(model: Model, batches: Batches, values: Mapping[str, tf.Tensor], variables: Mapping[str, Any]) -> tf.Tensor:
    v1.get_default_graph().clear_collection(v1.GraphKeys.REGULARIZATION_LOSSES)  # of the batch before
    with v1.variable_scope(v1.get_variable_scope(), custom_getter=_getter(values, variables)):
        outputs = model.forward(batches.features, training=True)
        return model.loss(outputs, batches.labels)


def _getter(values: Mapping[str, tf.Tensor], variables: Mapping[str, Any]) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if name not in values and name not in variables:
            raise ModelError(
                f"forward() made variable {name}, which it did not make the first time: build it the same way."
            )
        found = values[name] if name in values else variables[name]
        regularizer = kwargs.get("regularizer")
        if regularizer is not None and not kwargs.get("reuse"):
            v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, regularizer(found))
        return found

    return get
