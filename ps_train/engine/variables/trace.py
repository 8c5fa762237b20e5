"""The variables of a model, found by building the model once in a scratch graph.

    model_variables = trace(model, DataSource(lambda: model.data("train", "")), batch_size=32)
    model_variables.variables["hidden1/weights"].spec    # VariableSpec('hidden1/weights', (64, 128), 'float32', 4)

Errors of a model are found here, before any server starts.  The module knows nothing of ps or plans.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.user_code import shown, user_code
from ps_train.cluster.membership.job_diff import USES
from ps_train.data.arrays import Batch
from ps_train.data.data_shard import WHOLE
from ps_train.data.named_inputs import dense_inputs, named_inputs, of_kind
from ps_train.data.pipeline import Batches, DataSource, derived_seed, training_batches
from ps_train.engine.variables.assigned_variables import assigned_variables
from ps_train.engine.variables.custom_gradients import as_captured, check_custom_gradients
from ps_train.engine.variables.global_step import overriding_global_step
from ps_train.engine.variables.initial_tensor import InitialTensor, Value, extract_initial_value
from ps_train.engine.variables.model_variable import ModelVariable
from ps_train.engine.variables.pairwise_shapes import check_shapes
from ps_train.engine.variables.plain_graph import is_trained, model_value
from ps_train.engine.variables.plan import VariableSpec
from ps_train.engine.variables.seeded_graph import SeededGraph
from ps_train.engine.variables.user_variables import variables_provided_by
from ps_train.engine.variables.variable_uses import variable_uses
from ps_train.modeling.model import Model
from ps_train.modeling.scratch_graph import scratch_graph, without_values
from ps_train.modeling.tables import row_order
from ps_train.modeling.tables.distributions import constant_of, distribution_of
from ps_train.modeling.tables.given_rows import given_rows, whole_rows
from ps_train.modeling.tables.row_source import declared_tables
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.vocabulary_index import CANDIDATES, KEYS, UPDATE_COUNT, USED

log = logging.getLogger(__name__)


def traced_loss(model: Model, batches: Batches) -> tf.Tensor:
    """Returns the loss of a batch in training.

    Raises:
      ModelError: forward() or loss() raised an exception, or the loss is not a floating-point scalar.
    """
    inputs = named_inputs(batches.features, batches.labels)
    with user_code("forward()", inputs if isinstance(batches.features, Batch) else of_kind("feature", inputs)):
        outputs = model.forward(batches.features, True)
    if outputs is None:
        raise ModelError("forward() returned None: return the outputs, which loss() gets.")
    with user_code("loss()", of_kind("label", inputs)):
        loss = model.loss(outputs, batches.labels)
    _check_loss(loss)
    return loss


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, tf.Tensor) or not loss.dtype.is_floating:
        raise ModelError(f"loss() returned {shown(loss)}: return a floating-point scalar tensor.")
    if loss.shape.rank != 0:
        raise ModelError(f"loss() returned a tensor of shape {loss.shape}, not a scalar: use tf.reduce_mean on it.")


class CheckpointValue(NamedTuple):
    """A tensor of a checkpoint that a variable begins with: `tf.train.init_from_checkpoint`."""

    path: str
    key: str


@dataclasses.dataclass(frozen=True)
class VariableTrace:
    """One variable as the model made it.

    Attributes:
      trainable: True if an optimizer may update it.
      initializer: an initializer, an array or an `InitialTensor` with its initial value.
      has_gradient: True if the loss has a gradient with respect to it.
      sparse: True if that gradient is an IndexedSlices, which touches some rows only.
      table: the table's declaration, if the variable is a table; a table never travels whole.
      assigned: True if the model assigns it in forward() or loss(); see `engine/transport/model_state.py`.
      given: the source of the rows that a table begins with (`modeling/tables/given_rows.py`), with an
        `InitialTensor` for a tensor; None for other initial values.
      checkpoint: the tensor of another checkpoint that the variable begins with, which precedes the other sources.
    """

    spec: VariableSpec
    trainable: bool
    initializer: Any
    has_gradient: bool = False
    sparse: bool = False
    table: Table | None = None
    assigned: bool = False
    given: Any = None
    checkpoint: CheckpointValue | None = None

    @property
    def has_row_initializer(self) -> bool:
        """True for a table if any range of its rows can be initialized without the other rows."""
        if self.table is None:
            return False
        return self.given is not None or distribution_of(self.table.first_initializer) is not None

    def initial_rows(self, begin: Any, rows: Any, seed: int) -> tf.Tensor:
        """Returns a table's initial rows, or zeros for given ones, which the chief writes into them.

        `begin` and `rows` may be int64 tensors if `has_row_initializer`.
        """
        assert self.table is not None
        if self.given is not None:
            return tf.zeros([rows, *self.table.row_shape])
        seed = derived_seed(seed, self.spec.name)
        found = row_order.initial_rows(self.table.first_initializer, begin, rows, self.table.dimension, seed)
        return tf.reshape(found, [rows, *self.table.row_shape])

    def given_rows(self, seed: int) -> np.ndarray[Any, Any]:
        """Returns the rows that a table begins with by index, computed in this process.

        Raises:
          ModelError: they do not fit the table.
        """
        assert self.table is not None
        own = derived_seed(seed, self.spec.name)
        with SeededGraph(own).as_default(), tf.device("/device:CPU:0"):
            is_tensor = isinstance(self.given, InitialTensor)
            rows = whole_rows(self.table, self.given.tensor(own, seed) if is_tensor else self.given)
            if isinstance(rows, tf.Tensor):
                with v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session:
                    rows = whole_rows(self.table, session.run(rows))
        return rows

    def initial_value(self, seed: int) -> tf.Tensor:
        """Returns the whole initial value.

        An unseeded initializer gets a seed made of `seed` and the name, whatever the plan and the order of making.
        """
        initializer = self.initializer
        if isinstance(initializer, InitialTensor):
            return initializer.tensor(derived_seed(seed, self.spec.name), seed)
        if isinstance(initializer, np.ndarray):
            return tf.constant(initializer)
        initializer = initializer() if isinstance(initializer, type) else initializer
        initializer = _seeded(initializer, derived_seed(seed, self.spec.name))
        if not self.spec.divisible and _has_no_parameters(initializer):
            return tf.convert_to_tensor(initializer())
        return tf.convert_to_tensor(initializer(list(self.spec.shape), dtype=tf.as_dtype(self.spec.dtype)))

    def initial_slice(self, begin: int, count: int, seed: int) -> tf.Tensor:
        """Returns the initial value of some rows; of an array, only these rows become a constant of the graph."""
        values = self.initializer if isinstance(self.initializer, np.ndarray) else constant_of(self.initializer)
        if values is not None and values.shape == self.spec.shape:
            return tf.constant(values[begin : begin + count], self.spec.dtype)
        return self.initial_value(seed)[begin : begin + count]


@dataclasses.dataclass(frozen=True)
class ModelVariables:
    """The variables of a model.

    Attributes:
      variables: name to variable, in the order in which the model made them.
      uses: name to the marks of how the model uses the variable; see `variable_uses`.
      example_bytes: bytes that the tensors of one example take at least; 0 if they are not known.
    """

    variables: dict[str, VariableTrace]
    uses: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict, compare=False)
    example_bytes: int = dataclasses.field(default=0, compare=False)

    def specs(self) -> list[VariableSpec]:
        """Returns the specs of all variables, in the order in which the model made them."""
        return [variable.spec for variable in self.variables.values()]

    def dense_trainable(self) -> list[str]:
        """Returns the names of the variables that travel to the workers whole: trainable ones and the model's state."""
        return [name for name, v in self.variables.items() if (v.trainable or v.assigned) and not v.table]

    def state(self) -> list[str]:
        """Returns the names of the variables that the model assigns itself."""
        return [name for name, variable in self.variables.items() if variable.assigned]

    def with_gradient(self) -> list[str]:
        """Returns the names of the variables that the loss has a gradient for, without tables."""
        return [name for name, variable in self.variables.items() if variable.has_gradient and not variable.table]

    def sparse(self) -> list[str]:
        """Returns the names of the variables whose gradient touches some rows only, without tables."""
        return [name for name in self.with_gradient() if self.variables[name].sparse]

    def tables(self) -> list[str]:
        """Returns the names of the tables, of which only the looked-up rows travel."""
        return list(self.tables_by_name())

    def tables_by_name(self) -> dict[str, Table]:
        """Returns name to declaration of each table."""
        return {name: variable.table for name, variable in self.variables.items() if variable.table}

    def described(self) -> dict[str, Any]:
        """Returns each variable's `shape dtype` as text by its name, and the uses, to compare two processes' models."""
        kinds = {f"variable {v.name}": f"{list(v.shape)} {v.dtype}" for v in self.specs()}
        return {**kinds, USES: dict(self.uses)} if self.uses else dict(kinds)


def trace(model: Model, source: DataSource, batch_size: int, seed: int = 0) -> ModelVariables:
    """Returns a model's variables; `seed` seeds Python's `random`, from which Keras draws seeds of initial values.

    Raises:
      ModelError: the model cannot be trained, or its own code raised an exception.
    """
    traces: dict[str, VariableTrace] = {}
    with scratch_graph() as graph:
        batches = training_batches(source.get(), WHOLE, batch_size, epochs=0, shuffle_buffer=0)
        inputs, created, given = dense_inputs(batches.features, batches.labels), dict[str, Any](), dict[str, Any]()
        step = v1.placeholder_with_default(np.int64(0), [], "global_step")
        begun = dict[str, CheckpointValue]()
        provided = variables_provided_by(_recorder(traces, created, given), _taker(created, begun))
        with provided, python_seed(seed), overriding_global_step(step):
            loss = traced_loss(model, batches)
        check_shapes("the loss", loss, inputs)
        tables = declared_tables(graph)
        names = [name for name, variable in traces.items() if variable.trainable]
        _check_trained(names)
        check_custom_gradients(graph, {name: given[name] for name in names if name not in tables})
        values = {name: created[name] if name in tables else given[name] for name in names}
        uses = variable_uses(
            loss, {name: _tensor_of(given[name]) for name in names}, {name: traces[name].initializer for name in names}
        )
        with user_code("compute_gradients()"):
            found = model.compute_gradients(loss, values)
        gradients = {name: found.get(name) for name in names}
        assigned = assigned_variables(created)
        _check_gradients(gradients, assigned)
        _check_tables({name: created[name] for name in tables})
        traces = with_findings(traces, gradients, tables, assigned)
    for name, table in tables.items():
        if table.is_open:
            _check_vocabulary(name, begun)
            traces |= _vocabulary_variables(name, table, traces[f"{name}/{KEYS}"].spec.shape[1])
    for name, value in begun.items():
        traces[name] = dataclasses.replace(traces[name], checkpoint=value, given=None)
    variables = ModelVariables(traces, uses, sum(map(_bytes_of_example, inputs.values())))
    warn_of_gradients(variables)
    return variables


def _bytes_of_example(batch: tf.Tensor) -> int:
    """Returns the bytes of an example in a tensor [batch, ...], with 1 for each size that is not known."""
    return int(batch.dtype.size or 1) * math.prod(size or 1 for size in batch.shape[1:] or ())


def _tensor_of(value: Any) -> tf.Tensor:
    """Returns the tensor that stands for what a model is given: the value, or the handle of a variable."""
    return value if isinstance(value, tf.Tensor) else value.handle


def with_findings(
    traces: Mapping[str, VariableTrace],
    gradients: Mapping[str, Any],
    tables: Mapping[str, Table],
    assigned: Collection[str],
) -> dict[str, VariableTrace]:
    """Returns the traces of variables with what the whole model says about them; call it in a scratch graph.

    Args:
      traces: name to trace, as the variable was made.
      gradients: name of each trained variable to its gradient, or None.
      tables: name to table, of the variables that are tables.
      assigned: names of the variables that the model assigns itself.
    """
    found = dict(traces)
    for name, gradient in gradients.items():
        exists, sparse, table = gradient is not None, isinstance(gradient, tf.IndexedSlices), tables.get(name)
        spec = dataclasses.replace(found[name].spec, spread=table is not None, grain=_grain(table))
        given = None if table is None else _given_rows(name, table)
        found[name] = dataclasses.replace(
            found[name], spec=spec, has_gradient=exists, sparse=sparse, table=table, given=given
        )
    for name in assigned:
        spec = dataclasses.replace(found[name].spec, divisible=False)
        found[name] = dataclasses.replace(found[name], spec=spec, assigned=True, has_gradient=False, sparse=False)
    return found


def _taker(created: Mapping[str, Any], begun: dict[str, CheckpointValue]) -> Callable[[Any, str, str], None]:
    """Returns a function that records the variables which begin with values of a checkpoint."""

    def take(variable: Any, path: str, key: str) -> None:
        name = str(variable.name).partition(":")[0]
        if not isinstance(variable, ModelVariable):
            name = next((known for known, one in created.items() if one is variable), "")
        if not name:
            raise ModelError(
                f"init_from_checkpoint is given variable {variable.op.name}, which each worker keeps for itself: give "
                "it variables of the model."
            )
        reader = tf.train.load_checkpoint(path)
        shape, dtype = reader.get_variable_to_shape_map()[key], reader.get_variable_to_dtype_map()[key]
        wanted, kind = created[name].shape.as_list(), created[name].dtype.base_dtype
        if shape != wanted or dtype != kind:
            raise ValueError(
                f"Variable {name} ({kind.name} {wanted}) doesn't match tensor {key} ({dtype.name} {shape}) of "
                f"checkpoint {path}."
            )
        begun[name] = CheckpointValue(path, key)

    return take


def _check_vocabulary(name: str, begun: Mapping[str, CheckpointValue]) -> None:
    """Raises ModelError if only some variables of an open vocabulary begin with values of a checkpoint."""
    parts = [name, *(f"{name}/{part}" for part in (KEYS, USED, UPDATE_COUNT))]
    missing = [part for part in parts if part not in begun]
    if 0 < len(missing) < len(parts):
        raise ModelError(
            f"init_from_checkpoint is given a part of table {name}, which has capacity, but not {', '.join(missing)}: "
            "give all of its variables, from a checkpoint of ps_train, or none."
        )


def _given_rows(name: str, table: Table) -> Any:
    """Returns the source of the rows that a table begins with; calls a function once, to check its shape."""
    source = given_rows(table)
    if isinstance(source, tf.Tensor):
        return extract_initial_value(name, source, {})
    if source is not None:
        with user_code(f"the initializer of table {name}"):
            whole_rows(table, source)
    return source


def _grain(table: Table | None) -> int:
    return table.rows_per_group if table is not None and table.is_open else 1


def _vocabulary_variables(name: str, table: Table, width: int) -> dict[str, VariableTrace]:
    """Returns the variables that map ids to rows of an open vocabulary; they are sliced like the table's rows."""
    shapes = {KEYS: (table.total, width), USED: (table.total, 3), UPDATE_COUNT: (table.groups,)}
    if table.admit_after > 1:
        shapes |= {f"{CANDIDATES}/{part}": shapes[part] for part in (KEYS, USED)}
    variables = {}
    for part, shape in shapes.items():
        grain = 1 if part == UPDATE_COUNT else _grain(table)
        spec = VariableSpec(f"{name}/{part}", shape, "int64", 8, spread=True, grain=grain)
        variables[spec.name] = VariableTrace(spec, False, v1.zeros_initializer())
    return variables


def _recorder(traces: dict[str, VariableTrace], created: dict[str, Any], given: dict[str, Any]) -> Callable[..., Any]:
    """Returns a custom getter that records each variable: its trace, TensorFlow's variable, the model's value."""
    known: dict[str, Value] = {}

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("constraint") is not None:
            raise ModelError(f"variable {name} has a constraint, which is not supported: clip in the model instead.")
        variable = getter(name, *args, **without_values(kwargs))
        if name not in traces:
            if not variable.shape.is_fully_defined():
                raise ModelError(f"variable {name} has the shape {variable.shape}: give every dimension a size.")
            created[name] = variable
            traces[name] = trace_variable(name, variable, kwargs, known)
            value = given[name] = as_captured(model_value(name, variable))
            known[(value if isinstance(value, tf.Tensor) else variable.handle).name] = traces[name].initial_value
        return given[name]

    return get


@contextlib.contextmanager
def python_seed(seed: int) -> Iterator[None]:
    """Seeds Python's `random` within the body and restores its state afterwards."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def trace_variable(name: str, variable: Any, kwargs: Mapping[str, Any], known: Mapping[str, Value]) -> VariableTrace:
    """Returns a new variable's trace, without what only the whole model says about it.

    Args:
      name: with its scopes.
      variable: TensorFlow's variable.
      kwargs: the arguments of its getter.
      known: name of each earlier variable's value, or handle, to its initial value.

    Raises:
      ModelError: no optimizer can train it.
    """
    trainable, dtype = is_trained(variable), variable.dtype.base_dtype
    if variable.trainable and dtype.is_complex:
        raise ModelError(
            f"variable {name} is of {dtype.name}, which no optimizer trains: make it with trainable=False."
        )
    initializer, divisible = kwargs.get("initializer"), kwargs.get("shape") is not None
    if "initial_value" in kwargs:
        initializer, divisible = extract_initial_value(name, variable.initial_value, known), True
    elif isinstance(initializer, tf.Tensor | ModelVariable):
        initializer = extract_initial_value(name, variable.initial_value, known)
    elif initializer is None:
        initializer = v1.glorot_uniform_initializer() if dtype.is_floating else _zeros
    elif not callable(initializer):
        initializer = np.asarray(initializer, dtype.as_numpy_dtype)
    spec = VariableSpec(name, tuple(variable.shape.as_list()), dtype.name, dtype.size, divisible and trainable)
    return VariableTrace(spec, trainable, initializer)


def _zeros(shape: Any, dtype: Any, partition_info: Any = None) -> tf.Tensor:
    return tf.fill(shape, "") if dtype == tf.string else tf.zeros(shape, dtype)


def _check_trained(names: Sequence[str]) -> None:
    if not names:
        raise ModelError("the model makes no trainable variable: use tf.compat.v1.get_variable in forward().")


def _check_gradients(gradients: Mapping[str, Any], assigned: Collection[str]) -> None:
    for name in assigned:
        if gradients.get(name) is not None:
            raise ModelError(
                f"variable {name} is trained, and the model assigns it too: make it with trainable=False, or leave its "
                "values to the optimizer."
            )
    if all(gradient is None for gradient in gradients.values()):
        raise ModelError(
            f"the loss depends on none of the model's variables ({', '.join(gradients)}): nothing to train."
        )


def warn_of_gradients(variables: ModelVariables) -> None:
    """Warns of each trained variable without a gradient, or with one that touches few of the rows that travel."""
    for name, variable in variables.variables.items():
        if not variable.trainable or variable.assigned:
            continue
        if not variable.has_gradient:
            log.warning("the loss does not depend on variable %s, so it will keep its initial value", name)
        elif variable.sparse and variable.table is None:
            log.warning("variable %s travels whole at every step, although its gradient is sparse", name)


def _check_tables(tables: Mapping[str, Any]) -> None:
    """Raises ModelError for a table that is read whole: it would travel whole, and its gradient would be dense."""
    for name, variable in tables.items():
        for reader in variable.handle.consumers():
            if reader.type == "ReadVariableOp" and (users := reader.outputs[0].consumers()):
                user = users[0].name.removeprefix("model/")
                raise ModelError(
                    f"table {name} is used whole by {user} ({users[0].type}), so that its gradient would be "
                    "dense: use only the rows that embeddings.lookup returns (and --l2 in place of a regularizer)."
                )


def _seeded(initializer: Any, seed: int) -> Any:
    """Returns the initializer with this seed, if it is TensorFlow's or Keras's and has no seed."""
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    if "seed" not in config or config["seed"] is not None:
        return initializer
    others = {name: value for name, value in config.items() if name != "dtype"}  # the call gives the dtype
    return type(initializer).from_config({**others, "seed": seed})


def _has_no_parameters(initializer: Any) -> bool:
    return getattr(getattr(initializer, "__code__", None), "co_argcount", None) == 0
