"""Which variables does this model make?  Found by running it once in a scratch graph.

    traced = trace(model, Source(lambda: model.data("train", "")), batch_size=32)
    traced.variables["hidden1/weights"].spec      # VariableSpec('hidden1/weights', (64, 128), 'float32', 4)

Everything that can be wrong with a model is found here, before any server starts.  Nothing here knows of ps or plans.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import DataSource, derived_seed, training_batches
from ps_train.embeddings import row_order
from ps_train.embeddings.distributions import distribution_of
from ps_train.embeddings.index import CANDIDATES, CLOCK, KEYS, USED
from ps_train.embeddings.row_source import declared_tables
from ps_train.embeddings.table import Table
from ps_train.errors import ModelError
from ps_train.model import Model
from ps_train.placement.assigned_variables import assigned_variables
from ps_train.placement.custom_gradients import as_captured, check_custom_gradients
from ps_train.placement.global_step import overriding_global_step
from ps_train.placement.initial_tensor import InitialTensor, Value, extracted
from ps_train.placement.model_variable import ModelVariable
from ps_train.placement.plain import is_trained, model_value
from ps_train.placement.plan import VariableSpec
from ps_train.placement.user_variables import variables_provided_by

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class VariableTrace:
    """One variable as the model asked for it.

    Attributes:
      learned: the loss has a gradient with respect to it.
      sparse: that gradient is of some rows only (IndexedSlices).
      table: what it was declared as, if its rows are looked up and it never travels whole.
      assigned: the model gives it values itself, in forward() or loss(); see `model_state.py`.
    """

    spec: VariableSpec
    trainable: bool
    initializer: Any
    has_gradient: bool = False
    sparse: bool = False
    table: Table | None = None
    assigned: bool = False

    @property
    def in_parts(self) -> bool:
        """Whether it is a table of which any rows' initial values can be had apart from the others."""
        return self.table is not None and distribution_of(self.table.first_initializer) is not None

    def initial_rows(self, begin: Any, rows: Any, seed: int) -> tf.Tensor:
        """Of a table, some rows' initial values.  `begin` and `rows` may be int64 tensors if it is `in_parts`."""
        assert self.table is not None
        seed = derived_seed(seed, self.spec.name)
        return row_order.initial_rows(self.table.first_initializer, begin, rows, self.table.dimension, seed)

    def initial_value(self, seed: int) -> tf.Tensor:
        """Its whole initial value.  Random initializers without a seed get one that depends on the name alone,
        so that the value does not depend on how the variable is partitioned or in what order it is made."""
        initializer = self.initializer
        if isinstance(initializer, InitialTensor):
            return initializer.tensor(derived_seed(seed, self.spec.name), seed)
        if isinstance(initializer, np.ndarray):
            return tf.constant(initializer)
        if isinstance(initializer, type):
            initializer = initializer()
        initializer = _seeded(initializer, derived_seed(seed, self.spec.name))
        if not self.spec.divisible and _takes_nothing(initializer):
            return tf.convert_to_tensor(initializer())
        return tf.convert_to_tensor(initializer(list(self.spec.shape), dtype=tf.as_dtype(self.spec.dtype)))


@dataclasses.dataclass(frozen=True)
class ModelVariables:
    """A model's variables by name, in the order in which it made them.

    Attributes:
      asks_step: whether it asks for the global step, in forward() or loss().
    """

    variables: dict[str, VariableTrace]
    asks_step: bool = False

    def specs(self) -> list[VariableSpec]:
        return [variable.spec for variable in self.variables.values()]

    def dense_trainable(self) -> list[str]:
        """Names of the variables whose values travel to the workers whole: the trainable ones and the model's state."""
        return [name for name, v in self.variables.items() if (v.trainable or v.assigned) and not v.table]

    def state(self) -> list[str]:
        """Names of the variables that the model assigns itself."""
        return [name for name, variable in self.variables.items() if variable.assigned]

    def with_gradient(self) -> list[str]:
        return [name for name, variable in self.variables.items() if variable.has_gradient and not variable.table]

    def sparse(self) -> list[str]:
        """Names of the learned variables of which a step touches some rows only."""
        return [name for name in self.with_gradient() if self.variables[name].sparse]

    def tables(self) -> list[str]:
        """Names of those of which only the rows that are looked up travel."""
        return [name for name, variable in self.variables.items() if variable.table]

    def described(self) -> dict[str, str]:
        """Name to `shape dtype`, for comparing two processes' models."""
        specs = self.specs()
        return {f"variable {v.name}": f"{list(v.shape)} {v.dtype}" for v in specs}


def trace(model: Model, source: DataSource, batch_size: int, seed: int = 0) -> ModelVariables:
    """`seed`: of what Python draws while the model is built, as Keras does for its initial values.

    Raises ModelError for a model that cannot be trained; an exception of the model's own code passes through."""
    recorded: dict[str, VariableTrace] = {}
    with tf.Graph().as_default() as graph:
        batches = training_batches(source.get(), WHOLE, batch_size, epochs=0, shuffle_buffer=0)
        made: dict[str, Any] = {}
        handed: dict[str, Any] = {}
        step = v1.placeholder_with_default(np.int64(0), [], "global_step")
        with variables_provided_by(_recorder(recorded, made, handed)), _repeatable(seed), overriding_global_step(step):
            outputs = model.forward(batches.features, training=True)
            loss = model.loss(outputs, batches.labels)
        _check_loss(loss)
        tables = declared_tables(graph)
        names = [name for name, variable in recorded.items() if variable.trainable]
        _check_trained(names)
        check_custom_gradients(graph, {name: handed[name] for name in names if name not in tables})
        gradients = tf.gradients(loss, [made[name] if name in tables else handed[name] for name in names])
        assigned = assigned_variables(made)
        _check_gradients(dict(zip(names, gradients, strict=True)), tables, assigned)
        _check_tables({name: made[name] for name in tables})
        asks_step = bool(step.consumers())
    for name, gradient in zip(names, gradients, strict=True):
        sparse, table = isinstance(gradient, tf.IndexedSlices), tables.get(name)
        spec = dataclasses.replace(recorded[name].spec, spread=table is not None, grain=_grain(table))
        recorded[name] = dataclasses.replace(
            recorded[name], spec=spec, has_gradient=gradient is not None, sparse=sparse, table=table
        )
    for name in assigned:
        spec = dataclasses.replace(recorded[name].spec, divisible=False)
        recorded[name] = dataclasses.replace(recorded[name], spec=spec, assigned=True, has_gradient=False, sparse=False)
    for name, table in tables.items():
        if table.is_open:
            recorded |= _vocabulary_variables(name, table, recorded[f"{name}/{KEYS}"].spec.shape[1])
    return ModelVariables(recorded, asks_step)


def _grain(table: Table | None) -> int:
    return table.rows_per_group if table is not None and table.is_open else 1


def _vocabulary_variables(name: str, table: Table, width: int) -> dict[str, VariableTrace]:
    """The variables that say which id has which row of an open vocabulary; they are cut as the rows are."""
    shapes: dict[str, tuple[int, ...]] = {KEYS: (table.total, width), USED: (table.total, 3), CLOCK: (table.groups,)}
    if table.admit_after > 1:
        shapes |= {f"{CANDIDATES}/{part}": shapes[part] for part in (KEYS, USED)}
    found = {}
    for part, shape in shapes.items():
        grain = 1 if part == CLOCK else _grain(table)
        spec = VariableSpec(f"{name}/{part}", shape, "int64", 8, spread=True, grain=grain)
        found[spec.name] = VariableTrace(spec, False, v1.zeros_initializer())
    return found


def _recorder(recorded: dict[str, VariableTrace], made: dict[str, Any], handed: dict[str, Any]) -> Callable[..., Any]:
    """`made`: name to TensorFlow's variable; `handed`: to what the model is given for it."""

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("constraint") is not None:
            raise ModelError(f"variable {name} has a constraint, which is not supported: clip in the model instead.")
        variable = getter(name, *args, **kwargs)
        if name not in recorded:
            if not variable.shape.is_fully_defined():
                raise ModelError(f"variable {name} has the shape {variable.shape}: give every dimension a size.")
            made[name] = variable
            known = {
                (given if isinstance(given, tf.Tensor) else made[other].handle).name: recorded[other].initial_value
                for other, given in handed.items()
            }
            recorded[name] = _trace_variable(name, variable, kwargs, known)
            handed[name] = as_captured(model_value(name, variable))
        return handed[name]

    return get


@contextlib.contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """What Python draws within depends on the seed alone."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def _trace_variable(name: str, variable: Any, asked: dict[str, Any], known: Mapping[str, Value]) -> VariableTrace:
    """`known`: name of each tensor that stands for a variable, or of its handle, to its initial value."""
    trainable, dtype = is_trained(variable), variable.dtype.base_dtype
    if variable.trainable and dtype.is_complex:
        raise ModelError(
            f"variable {name} is of {dtype.name}, which no optimizer trains: make it with trainable=False."
        )
    initializer, divisible = asked.get("initializer"), asked.get("shape") is not None
    if "initial_value" in asked:
        initializer, divisible = extracted(name, variable.initial_value, known), True
    elif isinstance(initializer, tf.Tensor | ModelVariable):
        initializer = extracted(name, variable.initial_value, known)
    elif initializer is None:
        initializer = v1.glorot_uniform_initializer() if dtype.is_floating else _zeros
    elif not callable(initializer):
        initializer = np.asarray(initializer, dtype.as_numpy_dtype)
    spec = VariableSpec(name, tuple(variable.shape.as_list()), dtype.name, dtype.size, divisible and trainable)
    return VariableTrace(spec, trainable, initializer)


def _zeros(shape: Any, dtype: Any, partition_info: Any = None) -> tf.Tensor:
    """Of strings the empty one."""
    return tf.fill(shape, "") if dtype == tf.string else tf.zeros(shape, dtype)


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, tf.Tensor) or not loss.dtype.is_floating:
        raise ModelError(f"loss() returned {loss!r}: return a floating-point scalar tensor.")
    if loss.shape.rank != 0:
        raise ModelError(f"loss() returned a tensor of shape {loss.shape}, not a scalar: use tf.reduce_mean on it.")


def _check_trained(names: Sequence[str]) -> None:
    if not names:
        raise ModelError("the model makes no trainable variable: use tf.compat.v1.get_variable in forward().")


def _check_gradients(gradients: dict[str, Any], tables: Mapping[str, Table], assigned: Collection[str]) -> None:
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
    for name, gradient in gradients.items():
        if name in assigned:
            continue
        if gradient is None:
            log.warning("the loss does not depend on variable %s, so it will keep its initial value", name)
        elif isinstance(gradient, tf.IndexedSlices) and name not in tables:
            log.warning("variable %s travels whole at every step, although its gradient is sparse", name)


def _check_tables(tables: Mapping[str, Any]) -> None:
    """A table that is read whole would have to travel whole, and its gradient would be dense."""
    for name, variable in tables.items():
        for reader in variable.handle.consumers():
            if reader.type == "ReadVariableOp" and (users := reader.outputs[0].consumers()):
                user = users[0].name.removeprefix("model/")
                raise ModelError(
                    f"table {name} is used whole by {user} ({users[0].type}), so that its gradient would be "
                    "dense: use only the rows that embeddings.lookup returns (and --l2 in place of a regularizer)."
                )


def _seeded(initializer: Any, seed: int) -> Any:
    """The same initializer with this seed, if it is one of TensorFlow's or Keras's that was given none."""
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    if "seed" not in config or config["seed"] is not None:
        return initializer
    kept = {name: value for name, value in config.items() if name != "dtype"}  # it is given with the call
    return type(initializer).from_config({**kept, "seed": seed})


def _takes_nothing(initializer: Any) -> bool:
    code = getattr(initializer, "__code__", None)
    return code is not None and code.co_argcount == 0
