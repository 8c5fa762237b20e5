"""Forward and backward pass: builds the model with the pulled values in the place of its variables.

    backward = mean_gradients(model, batches, inputs, accumulate=1)
    backward.loss, backward.gradients["w"]

The module does not know the source of the values or the destination of the gradients.
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
from ps_train.graph.forward import substituting_variables, with_lookups
from ps_train.graph.summaries import collecting_summaries
from ps_train.model import Model
from ps_train.placement.global_step import overriding_global_step
from ps_train.placement.seeded_graph import distinct_seeds
from ps_train.placement.trace import ModelVariables
from ps_train.runtime.compute_dtype import cast_gradient, cast_values, widen_outputs
from ps_train.runtime.loss_scale import scaled, unscale
from ps_train.runtime.precision import widen
from ps_train.transport.model_state import ModelState
from ps_train.transport.sparse_mask import row_mask


@dataclasses.dataclass(frozen=True)
class PulledInputs:
    """The objects on the worker from which a model computes a step.

    Attributes:
      values: variable name to its whole pulled value, for trainable variables and those that the model assigns.
      variables: name to variable, for all others.
      model_variables: the variables of the model.
      fetch: function that fetches the rows of tables.
      step: int64 scalar, the global step at the time of the pull.
      compute_dtype: the dtype in which the model gets values and rows of float32.
      loss_scale: float32 scalar by which the differentiated loss is multiplied; None: 1.
    """

    values: Mapping[str, tf.Tensor]
    variables: Mapping[str, Any]
    model_variables: ModelVariables
    fetch: Fetch
    step: tf.Tensor
    compute_dtype: tf.DType = tf.float32
    loss_scale: tf.Tensor | None = None


@dataclasses.dataclass(frozen=True)
class Backward:
    """Loss and gradients, as means over the examples of all batches of a push.

    Attributes:
      loss: float scalar.
      gradients: variable name to dense gradient; table name to the gradient of its `rows`.
      masks: name of each variable with a sparse gradient to float32 [rows], above 0 for each row that it touches.
      rows: table name to the fetched rows, float32 [unique, dimension].
      examples: float32 scalar, number of examples.
      state: name to final value, of the variables that the model assigns itself.
      updates: the operations that the model has added to UPDATE_OPS.
    """

    loss: tf.Tensor
    gradients: dict[str, tf.Tensor]
    masks: dict[str, tf.Tensor]
    rows: dict[str, tf.Tensor]
    examples: tf.Tensor
    state: dict[str, tf.Tensor]
    updates: list[tf.Operation]


@dataclasses.dataclass(frozen=True)
class _BatchGradients:
    """Loss and gradients of one batch.

    Attributes:
      tensors: gradients of all variables with a gradient and of the rows of all tables, then the masks.
    """

    loss: tf.Tensor
    tensors: list[tf.Tensor]
    rows: dict[str, tf.Tensor]
    examples: tf.Tensor
    updates: list[tf.Operation]


def mean_gradients(model: Model, batches: Batches, inputs: PulledInputs, accumulate: int) -> Backward:
    """Computes loss and gradients as means over several batches.

    Args:
      model: the user's model.
      batches: the first batch; the others are read after it.
      inputs: the pulled values.
      accumulate: number of batches; 1 for a model with tables.

    Raises:
      ModelError: the model was not built as in its trace, or UPDATE_OPS holds something other than operations.
    """
    sparse = inputs.model_variables.sparse()
    state = ModelState({name: inputs.values[name] for name in inputs.model_variables.state()})
    inputs = dataclasses.replace(
        inputs,
        variables={**inputs.variables, **state.variables},
        values={name: value for name, value in inputs.values.items() if name not in state.variables},
    )
    given = cast_values(inputs.values, inputs.compute_dtype)  # once for all batches
    updates: list[tf.Operation] = []
    results: list[_BatchGradients] = []
    for number in range(accumulate):
        if number:
            batches = batches.next(after=results[-1].tensors)  # one after the other, to bound the memory
        results.append(_batch_gradients(model, batches, inputs, given, state))
        updates += results[-1].updates
        state.used(by=[*updates, results[-1].loss, *results[-1].tensors])
    loss, means, examples = _means(results)
    rows = results[-1].rows
    names = [*inputs.model_variables.with_gradient(), *rows]
    gradients = unscale(dict(zip(names, means[: len(names)], strict=True)), inputs.loss_scale)
    masks = dict(zip(sparse, means[len(names) :], strict=True))
    return Backward(loss, gradients, masks, rows, examples, state.values(), updates)


def _batch_gradients(
    model: Model, batches: Batches, inputs: PulledInputs, given: Mapping[str, tf.Tensor], state: ModelState
) -> _BatchGradients:
    """Computes the gradients of one batch, with respect to the pulled values of which `given` are casts."""
    model_variables, values = inputs.model_variables, inputs.values
    with (
        with_lookups(inputs.fetch, model_variables, inputs.compute_dtype) as rows,
        overriding_global_step(inputs.step),
        state.loaded(),
    ):
        loss = _loss(model, batches, inputs, given)
    updates = _updates()
    sources = {name: values[name] for name in model_variables.with_gradient()} | rows
    found = model.compute_gradients(scaled(loss, inputs.loss_scale), sources)
    dtypes = {name: tf.as_dtype(variable.spec.dtype) for name, variable in model_variables.variables.items()}
    gradients = {name: cast_gradient(found.get(name), dtypes[name]) for name in sources}
    gradients |= {name: _row_gradients(gradients[name], rows[name]) for name in rows}
    masks = [row_mask(gradients[name], values[name].shape[0]) for name in model_variables.sparse()]
    tensors = [tf.convert_to_tensor(gradient) for gradient in gradients.values()] + masks
    return _BatchGradients(loss, tensors, rows, batches.examples, updates)


def _means(results: Sequence[_BatchGradients]) -> tuple[tf.Tensor, list[tf.Tensor], tf.Tensor]:
    """Returns the means of loss and tensors over the examples of all batches, and the number of these examples."""
    if len(results) == 1:
        return results[0].loss, results[0].tensors, results[0].examples
    examples = tf.add_n([result.examples for result in results])
    weights = [result.examples / tf.maximum(examples, 1.0) for result in results]
    means = [_weighted(tensors, weights) for tensors in zip(*(result.tensors for result in results), strict=True)]
    return _weighted([result.loss for result in results], weights), means, examples


def _row_gradients(gradient: Any, rows: tf.Tensor) -> tf.Tensor:
    """Returns the dense gradient of the fetched rows; the gradients of all lookups of a row are summed."""
    if gradient is None:
        return tf.zeros_like(rows)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, tf.shape(rows)[0])
    return gradient


def _weighted(tensors: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]) -> tf.Tensor:
    wide = [widen(tensor) for tensor in tensors]
    total = tf.add_n([tensor * tf.cast(weight, tensor.dtype) for tensor, weight in zip(wide, weights, strict=True)])
    return tf.cast(total, tensors[0].dtype)


def _loss(model: Model, batches: Batches, inputs: PulledInputs, given: Mapping[str, tf.Tensor]) -> tf.Tensor:
    for key in (v1.GraphKeys.REGULARIZATION_LOSSES, v1.GraphKeys.UPDATE_OPS):  # filled by the previous batch
        v1.get_default_graph().clear_collection(key)
    is_mixed = inputs.compute_dtype != tf.float32
    wide = {name: widen(value) for name, value in inputs.values.items()} if is_mixed else {}
    substitution = substituting_variables(given, inputs.variables, regularized=wide)
    with substitution, distinct_seeds(), collecting_summaries():
        outputs = model.forward(batches.features, True)
        loss = model.loss(widen_outputs(outputs) if is_mixed else outputs, batches.labels)
        return widen(loss) if is_mixed else loss


def _updates() -> list[tf.Operation]:
    """Returns the operations of UPDATE_OPS, which may also hold tensors and the results of assignments."""
    ops = []
    for item in v1.get_collection(v1.GraphKeys.UPDATE_OPS):
        op = item if isinstance(item, tf.Operation) else getattr(item, "op", None)
        if not isinstance(op, tf.Operation):
            raise ModelError(f"UPDATE_OPS holds {item!r}: add operations or tensors to it.")
        ops.append(op)
    return ops
