"""Forward and backward pass: builds the model with the pulled values in the place of its variables.

    computed = mean_gradients(model, inputs, batches, accumulate=1, towers=ONE_TOWER)
    computed.loss, computed.gradients["w"]

The towers of a step work at the same time, each on its part of the batch.  Accumulated batches follow each other.
The module does not know the source of the values or the destination of the gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, ModelError
from ps_train.base.user_code import place_of
from ps_train.data.pipeline import Batches
from ps_train.engine.step.effects import ancestors, lasting_effects
from ps_train.engine.step.forward import substituting_variables, with_lookups
from ps_train.engine.step.summaries import collecting_summaries
from ps_train.engine.step.towers import ONE_TOWER, Towers, split_batch
from ps_train.engine.transport.model_state import ModelState
from ps_train.engine.transport.sparse_mask import row_mask
from ps_train.engine.variables.global_step import overriding_global_step
from ps_train.engine.variables.precision import cast_gradient, cast_values, widen, widen_outputs
from ps_train.engine.variables.seeded_graph import distinct_seeds
from ps_train.engine.variables.trace import ModelVariables
from ps_train.modeling.model import SKIPPED, Model
from ps_train.modeling.tables.deferred_lookups import DeferredLookups, Fetch, OfVocabularies

_KEYS = v1.GraphKeys
_LASTING = {_KEYS.TABLE_INITIALIZERS, _KEYS.ASSET_FILEPATHS, _KEYS.SUMMARIES, _KEYS.GLOBAL_STEP}
"""Collections of all builds of the model, and two that are taken care of elsewhere."""


@dataclasses.dataclass(frozen=True)
class PulledInputs:
    """The objects on the worker from which a model computes a step.

    Attributes:
      values: variable name to its whole pulled value, for trainable variables and those that the model assigns.
      variables: name to variable, for all others.
      fetch: function that fetches the rows of tables.
      vocabularies: functions on open vocabularies.
      step: int64 scalar, the global step at the time of the pull.
      compute_dtype: the dtype in which the model gets values and rows of float32.
      differentiated: function of a batch's loss; returns the scalar that is differentiated.
    """

    values: Mapping[str, tf.Tensor]
    variables: Mapping[str, Any]
    model_variables: ModelVariables
    fetch: Fetch
    vocabularies: OfVocabularies
    step: tf.Tensor
    compute_dtype: tf.DType = tf.float32
    differentiated: Callable[[tf.Tensor], tf.Tensor] = lambda loss: loss


@dataclasses.dataclass(frozen=True)
class Computed:
    """What a step pushes: loss and gradients, as means over the examples of all batches of the push.

    Attributes:
      loss: float scalar.
      gradients: variable name to dense gradient; table name to the gradient of its `rows`.
      masks: name of each variable with a sparse gradient to float32 [rows], above 0 for each row that it touches.
      rows: table name to the fetched rows, float32 [unique, dimension].
      used: name of each table of which a step may not use all rows to float32 [unique], above 0 for the used ones.
      beside: of a kind (`transport/beside_rows.py`) and a table to what travels beside the gradient of its rows.
      examples: float32 scalar, number of examples.
      state: name to final value, of the variables that the model assigns itself.
      updates: operations that the push waits for: those that the model has added to UPDATE_OPS, in all towers.
      judged: the loss that --on_nan judges.
      skipped: bool scalars; the push is one of zeros where any of them is true.
      progress: int64 [batches, 3], the places of the batches in their shards; empty without dynamic sharding.
      sums: float32 [sums], what the batches add to the values that all workers add up; empty without them.
    """

    loss: tf.Tensor
    gradients: dict[str, tf.Tensor]
    masks: dict[str, tf.Tensor]
    rows: dict[str, tf.Tensor]
    used: dict[str, tf.Tensor]
    examples: tf.Tensor
    state: dict[str, tf.Tensor]
    updates: list[tf.Operation]
    judged: tf.Tensor
    skipped: Sequence[tf.Tensor] = ()
    progress: Sequence[tf.Tensor] = ()
    sums: Sequence[tf.Tensor] = ()
    beside: Mapping[str, Mapping[str, tf.Tensor]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Tower:
    """One device of a step.

    Attributes:
      device: its name; "" for the device that TensorFlow chooses.
      inputs: the pulled inputs, with the tower's own variables of the model's state.
      given: variable name to the value that the model gets, in the dtype in which it computes.
      state: the variables of the model's state.
    """

    device: str
    inputs: PulledInputs
    given: Mapping[str, tf.Tensor]
    state: ModelState


@dataclasses.dataclass(frozen=True)
class _BatchGradients:
    """Loss and gradients of one batch, or of a tower's part of it.

    Attributes:
      tensors: gradients of all variables with a gradient and of the rows of all tables, then the masks.
      rows, used: see `Computed`; `used` is of all towers together.
    """

    loss: tf.Tensor
    tensors: list[tf.Tensor]
    rows: dict[str, tf.Tensor]
    examples: tf.Tensor
    updates: list[tf.Operation]
    used: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)


def mean_gradients(
    model: Model, inputs: PulledInputs, batches: Batches, accumulate: int, towers: Towers = ONE_TOWER
) -> Computed:
    """Computes loss and gradients as means over several batches.

    Args:
      model: the user's model.
      inputs: the pulled values.
      batches: the first batch; the others are read after it.
      accumulate: number of batches; 1 for a model with tables.
      towers: the devices among which each batch is divided.

    Raises:
      ConfigError: several towers are not possible with this model.
      ModelError: the model was not built as in its trace, or UPDATE_OPS holds something other than operations.
    """
    sparse = inputs.model_variables.sparse()
    given = cast_values(inputs.values, inputs.compute_dtype)  # once for all batches and towers
    devices = [_tower(device, inputs, given) for device in towers.devices]
    updates: list[tf.Operation] = []
    results: list[_BatchGradients] = []
    after: list[Any] = []
    before = len(v1.get_collection(SKIPPED))
    for number in range(accumulate):
        if number:
            # One after the other, to bound the memory.
            batches = batches.next(after=[tensor for result in results[-len(devices) :] for tensor in result.tensors])
        results += _batch_gradients(model, split_batch(batches, len(devices)), devices, towers, after)
        for tower, result in zip(devices, results[-len(devices) :], strict=True):
            updates += result.updates
            tower.state.used(by=[*updates, result.loss, *result.tensors])
    loss, means, examples = _means(results)
    rows, used = results[-1].rows, results[-1].used
    names = [*inputs.model_variables.with_gradient(), *rows]
    gradients = dict(zip(names, means[: len(names)], strict=True))
    masks = dict(zip(sparse, means[len(names) :], strict=True))
    skipped = v1.get_collection(SKIPPED)[before:]
    # The loss of a skipped batch may be infinite, and is not pushed.
    judged = tf.where(tf.reduce_any(tf.stack(skipped)), tf.zeros_like(loss), loss) if skipped else loss
    state = devices[0].state.values()
    progress = [] if batches.progress is None else [batches.progress[tf.newaxis]]
    return Computed(loss, gradients, masks, rows, used, examples, state, updates, judged, skipped, progress)


def _tower(device: str, inputs: PulledInputs, given: Mapping[str, tf.Tensor]) -> _Tower:
    """Returns a tower that has loaded the model's state into variables of its own."""
    with tf.device(device):
        state = ModelState({name: inputs.values[name] for name in inputs.model_variables.state()})
    variables = {**inputs.variables, **state.variables}
    values = {name: value for name, value in inputs.values.items() if name not in state.variables}
    given = {name: given[name] for name in values}
    return _Tower(device, dataclasses.replace(inputs, variables=variables, values=values), given, state)


def _batch_gradients(
    model: Model, parts: Sequence[Batches], devices: Sequence[_Tower], towers: Towers, after: list[Any]
) -> list[_BatchGradients]:
    """Returns the gradients of each tower's part of a batch; the lookups of all towers are answered together.

    Args:
      model: the user's model.
      parts: the parts of the batch.
      devices: for each part its tower.
      towers: the flag's value.
      after: operations and tensors that the next tower waits for; empty while towers have no effect on each other.
    """
    inputs, graph = devices[0].inputs, v1.get_default_graph()
    results: list[_BatchGradients] = []
    fetched = with_lookups(inputs.fetch, inputs.model_variables, inputs.compute_dtype, towers.home, inputs.vocabularies)
    with fetched as lookups:
        for tower, part in zip(devices, parts, strict=True):
            first = len(graph.get_operations()) if len(devices) > 1 else 0
            with tf.device(tower.device), tf.control_dependencies(after):
                results.append(_part_gradients(model, part, tower, lookups))
            if len(devices) > 1 and _has_lasting_effect(results[-1], tower, first, towers):
                after[:] = [*results[-1].updates, results[-1].loss, *results[-1].tensors]
    used = lookups.used() | _without_gradient(inputs.model_variables, results[-1].rows)
    return [dataclasses.replace(result, used=used) for result in results]


def _without_gradient(model_variables: ModelVariables, rows: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns zeros for the rows of each table that the loss does not depend on: no optimizer may touch them."""
    tables = [name for name in rows if not model_variables.variables[name].has_gradient]
    return {name: tf.zeros(tf.shape(rows[name])[:1]) for name in tables}


def _has_lasting_effect(result: _BatchGradients, tower: _Tower, first: int, towers: Towers) -> bool:
    """Returns True if the towers must run one after the other, since a tower sees effects of another.

    Args:
      result: the result of a tower.
      tower: has the state that it may assign.
      first: index of the tower's first operation in the graph.
      towers: all towers.
    """
    targets = [*result.updates, result.loss.op, *(tensor.op for tensor in result.tensors)]
    inside = set(v1.get_default_graph().get_operations()[first:])
    own = {variable.handle.op for variable in tower.state.variables.values()}
    effects = lasting_effects([op for op in ancestors(targets) if op in inside], own)
    if effects and result.rows:
        raise ConfigError(
            f"{towers.flag} is not possible with tables ({', '.join(result.rows)}) and the effect of "
            f"{effects[0].type}{place_of(effects)}: all devices fetch their rows together; use towers=1."
        )
    return bool(effects)


def _part_gradients(model: Model, batches: Batches, tower: _Tower, lookups: DeferredLookups) -> _BatchGradients:
    inputs = tower.inputs
    model_variables, values = inputs.model_variables, inputs.values
    with overriding_global_step(inputs.step), tower.state.loaded():
        loss = _loss(model, batches, inputs, tower.given)
    updates, rows = _updates(), lookups.rows()
    sources = {name: values[name] for name in model_variables.with_gradient()} | rows
    found = model.compute_gradients(inputs.differentiated(loss), sources)
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
    # A batch after the end of the input has no weight, and counts as nothing even where it is not finite.
    total = tf.add_n(
        [
            tf.math.multiply_no_nan(tensor, tf.cast(weight, tensor.dtype))
            for tensor, weight in zip(wide, weights, strict=True)
        ]
    )
    return tf.cast(total, tensors[0].dtype)


def _loss(model: Model, batches: Batches, inputs: PulledInputs, given: Mapping[str, tf.Tensor]) -> tf.Tensor:
    _clear_collections(v1.get_default_graph())
    is_mixed = inputs.compute_dtype != tf.float32
    wide = {name: widen(value) for name, value in inputs.values.items()} if is_mixed else {}
    substitution = substituting_variables(given, inputs.variables, regularized=wide)
    with substitution, distinct_seeds(), collecting_summaries():
        outputs = model.forward(batches.features, True)
        loss = model.loss(widen_outputs(outputs) if is_mixed else outputs, batches.labels)
        return widen(loss) if is_mixed else loss


def _clear_collections(graph: tf.Graph) -> None:
    """Removes the losses, updates and other tensors that the previous build of the model has added to collections."""
    graph.clear_collection(_KEYS.UPDATE_OPS)
    for key in graph.get_all_collection_keys():
        if key not in _LASTING and not str(key).startswith("ps_train"):
            items, kinds = graph.get_collection_ref(key), (tf.Tensor, tf.Operation, tf.SparseTensor, tf.IndexedSlices)
            items[:] = [item for item in items if not isinstance(item, kinds)]


def _updates() -> list[tf.Operation]:
    """Returns the operations of UPDATE_OPS, which may also hold tensors and the results of assignments."""
    ops = []
    for item in v1.get_collection(_KEYS.UPDATE_OPS):
        op = item if isinstance(item, tf.Operation) else getattr(item, "op", None)
        if not isinstance(op, tf.Operation):
            raise ModelError(f"UPDATE_OPS holds {item!r}: add operations or tensors to it.")
        ops.append(op)
    return ops
