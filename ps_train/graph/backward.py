"""Forward and backward: the model is built again, with the pulled values in the variables' place.

    found = mean_gradients(model, batches, values, variables, traced, fetch, accumulate=1)
    found.loss, found.gradients["w"]

Knows nothing of where values come from and where gradients go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.pipeline import Batches
from ps_train.embeddings.deferred_lookups import Fetch
from ps_train.errors import ModelError
from ps_train.gradients.precision import widen
from ps_train.graph.forward import substituting_variables, with_lookups
from ps_train.model import Model
from ps_train.placement.global_step import overriding_global_step
from ps_train.placement.seeded_graph import distinct_seeds
from ps_train.placement.trace import ModelVariables
from ps_train.transport.model_state import ModelState
from ps_train.transport.sparse_mask import row_mask


@dataclasses.dataclass(frozen=True)
class Backward:
    """Loss and gradients, the means over the examples of all batches of a push.

    Attributes:
      gradients: variable name to dense gradient.
        (of a table: to the gradient of `rows`)
      masks: of the variables whose gradient is sparse, above 0 for each row that it touches; float32 [rows].
      rows: table name to the rows that were fetched, float32 [unique, dimension].
      examples: float32 scalar, the number of examples.
      state: name to the value at the end, of the variables that the model assigns itself.
      updates: what the model has put into UPDATE_OPS.
    """

    loss: tf.Tensor
    gradients: dict[str, tf.Tensor]
    masks: dict[str, tf.Tensor]
    rows: dict[str, tf.Tensor]
    examples: tf.Tensor
    state: dict[str, tf.Tensor]
    updates: list[tf.Operation]


def mean_gradients(
    model: Model,
    batches: Batches,
    values: Mapping[str, tf.Tensor],
    variables: Mapping[str, Any],
    traced: ModelVariables,
    fetch: Fetch,
    step: tf.Tensor,
    accumulate: int,
) -> Backward:
    """Of the means over `accumulate` batches (1 where there are tables).

    Args:
      values: name to its pulled value, whole, of trainable variables and of those that the model assigns.
      variables: name to variable, for all others.
      fetch: gets the rows of tables.
      step: int64 scalar on the worker, the global step when values were pulled.
    """
    learned, sparse = traced.with_gradient(), traced.sparse()
    state = ModelState({name: values[name] for name in traced.state()})
    variables = {**variables, **state.variables}
    values = {name: value for name, value in values.items() if name not in state.variables}
    updates: list[tf.Operation] = []
    losses: list[tf.Tensor] = []
    found: list[list[tf.Tensor]] = []
    sizes: list[tf.Tensor] = []
    for number in range(accumulate):
        if number:
            batches = batches.next(after=found[-1])  # one after the other, so that they need not all fit into memory
        with with_lookups(fetch, traced) as rows, overriding_global_step(step), state.loaded():
            losses.append(_loss(model, batches, values, variables))
        updates += _updates()
        sources = {name: values[name] for name in learned} | rows
        gradients = dict(zip(sources, tf.gradients(losses[-1], list(sources.values())), strict=True))
        gradients |= {name: _of_rows(gradients[name], rows[name]) for name in rows}
        masks = [row_mask(gradients[name], values[name].shape[0]) for name in sparse]
        found.append([tf.convert_to_tensor(gradient) for gradient in gradients.values()] + masks)
        sizes.append(batches.examples)
        state.used(by=[*updates, losses[-1], *found[-1]])
    means, examples = found[0], sizes[0]
    if accumulate > 1:
        examples = tf.add_n(sizes)
        shares = [size / tf.maximum(examples, 1.0) for size in sizes]
        means = [_weighted(some, shares) for some in zip(*found, strict=True)]
        losses = [_weighted(losses, shares)]
    first_mask = len(sources)
    return Backward(
        losses[0],
        dict(zip(sources, means[:first_mask], strict=True)),
        dict(zip(sparse, means[first_mask:], strict=True)),
        rows,
        examples,
        state.values(),
        updates,
    )


def _of_rows(gradient: Any, rows: tf.Tensor) -> tf.Tensor:
    """Dense: one row for each that was fetched, however often it was looked up."""
    if gradient is None:
        return tf.zeros_like(rows)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, tf.shape(rows)[0])
    return gradient


def _weighted(tensors: Sequence[tf.Tensor], shares: Sequence[tf.Tensor]) -> tf.Tensor:
    wide = [widen(tensor) for tensor in tensors]
    total = tf.add_n([tensor * tf.cast(share, tensor.dtype) for tensor, share in zip(wide, shares, strict=True)])
    return tf.cast(total, tensors[0].dtype)


def _loss(model: Model, batches: Batches, values: Mapping[str, tf.Tensor], variables: Mapping[str, Any]) -> tf.Tensor:
    for key in (v1.GraphKeys.REGULARIZATION_LOSSES, v1.GraphKeys.UPDATE_OPS):  # of the batch before
        v1.get_default_graph().clear_collection(key)
    with substituting_variables(values, variables), distinct_seeds():
        outputs = model.forward(batches.features, training=True)
        return model.loss(outputs, batches.labels)


def _updates() -> list[tf.Operation]:
    """The operations of UPDATE_OPS, which may also hold tensors, and what assignments to variables return."""
    found = []
    for item in v1.get_collection(v1.GraphKeys.UPDATE_OPS):
        op = item if isinstance(item, tf.Operation) else getattr(item, "op", None)
        if not isinstance(op, tf.Operation):
            raise ModelError(f"UPDATE_OPS holds {item!r}: add operations or tensors to it.")
        found.append(op)
    return found
