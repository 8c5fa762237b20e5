"""The update rules of a Keras optimizer, as an optimizer of each ps.

    rules = UpdateRules.from_bytes(data)                  # of `trace_rules(...).to_bytes()`
    optimizer = rules.optimizer(rate_factor=1.0, step=step)
    optimizer.apply_gradients([(gradient, variable)])     # a variable with the name of a rule

A rule is a graph without variables: from a variable's value, its gradient, its slots, the learning rate and the number
of updates it computes the new value and the new slots.  So it serves a whole variable, a slice, and some rows alike.

The module does not import Keras, and does not know where rules come from; see `rules.py`.
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import make_slot, make_variable_once
from ps_train.modeling.keras.kernel import KINDS, Kernel
from ps_train.modeling.keras.loss_scale import LossScale
from ps_train.modeling.model import RATE_KEY
from ps_train.modeling.optimizers import counted

_FORMAT = 3

_OF_RULE = ("shape", "whole_reason", "dense_reason", "moves_values", "moves_slots", "adds_to_slots")
_OF_OPTIMIZER = (
    *("optimizer_name", "iterations", "slot_updates"),
    *("global_clipnorm", "loss_scale_factor", "why_not_local"),
)
"""Attributes of a rule and of all of them that JSON takes as they are."""

UPDATES_KEY = "ps_train/updates"
"""Key of the number of updates that slots have seen, where they may begin anew."""


def why_not_local(optimizer: Any) -> str:
    """Returns why a Keras optimizer cannot train values of a worker, as text; "" if it can."""
    if optimizer.use_ema:
        return (
            "use_ema=True of its optimizer averages the weights of every step, and a worker keeps those of local "
            "steps; compile it without"
        )
    if any(kind.__name__ == "Ftrl" for kind in type(optimizer).__mro__):
        return (
            "its optimizer Ftrl computes each weight from slots alone, which local steps begin anew; compile it with "
            "Adagrad, which is Ftrl without regularization"
        )
    return ""


def refused_flags(why: str) -> dict[str, str]:
    """Returns the flags that are not possible for the reason of `why_not_local`, each with it."""
    return dict.fromkeys(("local_steps", "outer_optimizer"), why) if why else {}


@dataclasses.dataclass(frozen=True, eq=False)
class Slot:
    """A variable that the optimizer has beside a variable of the model.

    Attributes:
      name: its name under the variable's.
      dtype: TensorFlow's name of its dtype.
      shape: its shape.
      value: its first value; a scalar if all elements are equal.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """The rule of one variable.

    Attributes:
      shape: shape of the variable.
      graph: the serialized GraphDef.  Its placeholders are named gradient, variable, rate, iterations, and
        slot_0, slot_1, ... in the order of `slots`.
      inputs: the placeholders that it has.
      outputs: of variable and slot_0, ... that change, to the tensor with the new value.
      slots: the optimizer's variables beside this one.
      whole_reason: why the rule needs the whole variable, as text; "" if it updates each row by itself.
      dense_reason: why rows without a gradient cannot be left out, as text; "" if they can.
      moves_values: values change where the gradient is zero, if the slots are not as at the start.
      moves_slots: slots change where the gradient is zero.
      adds_to_slots: an update adds to each slot what does not depend on it, so two updates of rows can be put together.
      kernel: a kernel that updates the whole variable in its place; None for none.
    """

    shape: tuple[int, ...]
    graph: bytes
    inputs: frozenset[str]
    outputs: Mapping[str, str]
    slots: tuple[Slot, ...]
    whole_reason: str = ""
    dense_reason: str = ""
    moves_values: bool = False
    moves_slots: bool = False
    adds_to_slots: bool = False
    kernel: Kernel | None = None

    def compute(self, values: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Adds the rule to the default graph.

        Args:
          values: of each of `inputs` to a tensor of the default graph.

        Returns:
          Of each of `outputs` to the new value.
        """
        graph = v1.GraphDef.FromString(self.graph)
        given = {f"{name}:0": tf.identity(values[name]) for name in self.inputs}  # a function's own tensors
        found = tf.graph_util.import_graph_def(graph, given, list(self.outputs.values()), name="rule")
        return dict(zip(self.outputs, found, strict=True))

    def is_by_row(self, slot: Slot) -> bool:
        """Returns True if the slot has the rows of the variable."""
        return bool(self.shape) and slot.shape[:1] == self.shape[:1]


@dataclasses.dataclass(frozen=True, eq=False)
class RateRule:
    """The learning rate of a number of updates.

    Attributes:
      graph: the serialized GraphDef.  Its placeholders are named iterations and `RATE_KEY`.
      inputs: the placeholders that it has.
      output: the tensor with the rate.
      initial: the rate of the next update.
    """

    graph: bytes
    inputs: frozenset[str]
    output: str
    initial: float

    def compute(self, values: Mapping[str, Any]) -> tf.Tensor:
        """Adds the rate to the default graph; see `Rule.compute`."""
        graph = v1.GraphDef.FromString(self.graph)
        # The rate of a model of float64 is of float64 in Keras, and of float32 on the ps.
        dtypes = {node.name: tf.as_dtype(node.attr["dtype"].type) for node in graph.node if node.name in self.inputs}
        given = {f"{name}:0": tf.identity(tf.cast(values[name], dtypes[name])) for name in self.inputs}
        return tf.graph_util.import_graph_def(graph, given, [self.output], name="rate")[0]


@dataclasses.dataclass(frozen=True, eq=False)
class UpdateRules:
    """The update rules of an optimizer.

    Attributes:
      optimizer_name: name of the optimizer's class.
      rules: name of a variable to its rule.
      rate: the learning rate.
      iterations: number of updates that the optimizer had made when it was traced.
      slot_updates: those of them that its slots have seen.
      global_clipnorm: the norm to which a worker clips all gradients together; 0.0 for none.
      loss_scale_factor: the factor of the loss, by which a worker divides the gradients; 0.0 for none.
      why_not_local: see the function; "" if local steps are possible.
      loss_scale: the dynamic factor of the loss; None for none.
      homes: of a variable and a slot, by their names, to the optimizer's variable; only in the process that traced.
    """

    optimizer_name: str
    rules: Mapping[str, Rule]
    rate: RateRule
    iterations: int = 0
    slot_updates: int = 0
    global_clipnorm: float = 0.0
    loss_scale_factor: float = 0.0
    why_not_local: str = ""
    loss_scale: LossScale | None = None
    homes: Mapping[tuple[str, str], Any] = dataclasses.field(default_factory=dict)

    @property
    def initial_rate(self) -> float:
        """The learning rate of the next update."""
        return self.rate.initial

    @property
    def is_scheduled(self) -> bool:
        """True if the rate is computed from the number of updates, and no variable has it."""
        return RATE_KEY not in self.rate.inputs

    @property
    def not_divisible(self) -> frozenset[str]:
        """Names of the variables that must not be cut into slices."""
        return frozenset(name for name, rule in self.rules.items() if rule.whole_reason)

    def allows_rows(self, name: str) -> bool:
        """Returns True if a gradient of some rows of a variable can update these rows alone."""
        return not self.why_dense(name)

    def why_dense(self, name: str) -> str:
        """Returns why all rows of a variable are updated at every step; "" if `allows_rows`."""
        rule = self.rules[name]
        return rule.whole_reason or rule.dense_reason

    def moves_unseen_rows(self, name: str) -> bool:
        """Returns True if Keras changes the values of rows without a gradient; an update of rows alone does not."""
        return self.rules[name].moves_values

    def moves_unseen_slots(self, name: str) -> bool:
        """Returns True if Keras changes the slots of rows without a gradient; an update of rows alone does not."""
        return self.rules[name].moves_slots

    @property
    def slot_variables(self) -> dict[str, Any]:
        """The optimizer's variable of each slot, by the slot's key on the ps and in checkpoints.

        A variable that Keras has once, as the product in Nadam, has a key for each variable, with equal values.
        """
        return {f"{name}/{slot}": home for (name, slot), home in self.homes.items()}

    @property
    def slot_values(self) -> dict[str, np.ndarray[Any, Any]]:
        """The first values of the slots that do not begin with one number, by their keys on the ps."""
        return {
            f"{name}/{slot.name}": np.asarray(slot.value)
            for name, rule in self.rules.items()
            for slot in rule.slots
            if np.shape(slot.value)
        }

    def optimizer(self, rate_factor: Any, step: tf.Tensor) -> v1.train.Optimizer:
        """Returns an optimizer that updates by the rules.

        The slots of a slice begin with zeros in the place of `slot_values`.

        Args:
          rate_factor: factor of the learning rate, a float or a float32 scalar.
          step: number of updates made before this one, an int64 scalar.
        """
        return _RulesOptimizer(self, rate_factor, step)

    def on_worker(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Returns gradients as the rules expect them: divided by the factor of the loss, and clipped all together.

        Args:
          gradients: name to a tensor or IndexedSlices.  Rows that occur several times count as their sum.
        """
        found = dict(gradients)
        if self.loss_scale_factor:
            found = {name: scaled(one, 1 / tf.constant(self.loss_scale_factor)) for name, one in found.items()}
        if self.global_clipnorm:
            norm = tf.linalg.global_norm([_with_unique_rows(one) for one in found.values()])
            # A norm that is not finite makes all gradients NaN, as in Keras.
            scale = self.global_clipnorm * tf.minimum(1 / norm, 1 / self.global_clipnorm) + (norm - norm)
            found = {name: scaled(one, scale) for name, one in found.items()}
        return found

    def to_bytes(self) -> bytes:
        """Returns the rules as a file that `from_bytes` reads."""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as file:
            graphs: dict[bytes, str] = {}
            described = {}
            for name, rule in self.rules.items():
                described[name] = {
                    **_plain(rule, *_OF_RULE),
                    "kernel": _described(rule.kernel),
                    "graph": graphs.setdefault(rule.graph, f"graphs/{len(graphs)}"),
                    "inputs": sorted(rule.inputs),
                    "outputs": dict(rule.outputs),
                    "slots": [_plain(slot, "name", "dtype", "shape") for slot in rule.slots],
                }
                for index, slot in enumerate(rule.slots):
                    value = np.asarray(slot.value)
                    described[name]["slots"][index]["value_shape"] = value.shape
                    file.writestr(f"values/{name}/{index}", np.ascontiguousarray(value).tobytes())
            for graph, where in graphs.items():
                file.writestr(where, graph)
            file.writestr("rate", self.rate.graph)
            rate = {**_plain(self.rate, "output", "initial"), "inputs": sorted(self.rate.inputs)}
            own = _plain(self, *_OF_OPTIMIZER)
            scale = dataclasses.asdict(self.loss_scale) if self.loss_scale else None
            everything = {"format": _FORMAT, **own, "loss_scale": scale, "rate": rate, "rules": described}
            file.writestr("rules.json", json.dumps(everything))
        return data.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> UpdateRules:
        """Returns the rules of `to_bytes`."""
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            found = json.loads(file.read("rules.json"))
            if found.pop("format") != _FORMAT:
                raise ModelError("the update rules come from another version of ps_train: use one version everywhere.")
            rate = RateRule(graph=file.read("rate"), **{**found["rate"], "inputs": frozenset(found["rate"]["inputs"])})
            rules = {}
            for name, one in found["rules"].items():
                slots = tuple(
                    _read_slot(slot, file.read(f"values/{name}/{index}")) for index, slot in enumerate(one["slots"])
                )
                same = {"shape": tuple(one["shape"]), "inputs": frozenset(one["inputs"]), "slots": slots}
                kernel = KINDS[one["kernel"].pop("kind")](**one["kernel"]) if one["kernel"] else None
                rules[name] = Rule(**{**one, **same, "graph": file.read(one["graph"]), "kernel": kernel})
            scale = LossScale(**found["loss_scale"]) if found["loss_scale"] else None
            return cls(**{**found, "rate": rate, "rules": rules, "loss_scale": scale})


def _plain(owner: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(owner, name) for name in names}


def _read_slot(described: dict[str, Any], data: bytes) -> Slot:
    shape = described.pop("value_shape")
    value = np.frombuffer(data, tf.as_dtype(described["dtype"]).as_numpy_dtype).reshape(shape)
    return Slot(**{**described, "shape": tuple(described["shape"]), "value": value})


def scaled(gradient: Any, factor: tf.Tensor) -> Any:
    """Returns a gradient times a factor, in its dtype."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(scaled(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


def _with_unique_rows(gradient: Any) -> tf.Tensor:
    """Returns the values of a gradient, of which each row occurs once."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, positions = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))


def _described(kernel: Kernel | None) -> dict[str, Any] | None:
    if kernel is None:
        return None
    return {**dataclasses.asdict(kernel), "kind": next(name for name, one in KINDS.items() if type(kernel) is one)}


class _RulesOptimizer(v1.train.Optimizer):
    """Updates variables by rules."""

    def __init__(self, rules: UpdateRules, rate_factor: Any, step: tf.Tensor) -> None:
        super().__init__(use_locking=False, name=rules.optimizer_name)
        self._rules, self._rate_factor, self._step = rules, rate_factor, step
        self._rate_variable: Any = None
        self._counts, self._updates = False, None
        self._shared: dict[str, tf.Tensor] = {}

    def count_updates(self) -> None:
        """Counts the updates that the slots have seen, where they may begin anew."""
        self._counts = True

    @property
    def shown_name(self) -> str:
        """Name of the optimizer for people."""
        return f"{self._rules.optimizer_name} of Keras"

    def adds_to_slots(self, variable: Any) -> bool:
        """Returns True if what updates have changed in the slots of a variable's rows can be added."""
        rule = self._rule_of(variable)
        return rule.adds_to_slots and all(rule.is_by_row(slot) for slot in rule.slots)

    def _create_slots(self, var_list: list[Any]) -> None:
        beside = min(var_list, key=lambda variable: variable.op.name)
        if self._counts:
            self._updates = make_variable_once(self, UPDATES_KEY, np.int64(self._rules.slot_updates), beside)
        if not self._rules.is_scheduled:
            initial = np.float32(self._rules.initial_rate)
            self._rate_variable = make_variable_once(self, RATE_KEY, initial, beside)
        for variable in var_list:
            rule = self._rule_of(variable)
            for slot in rule.slots:
                shape = [variable.shape[0], *slot.shape[1:]] if rule.is_by_row(slot) else slot.shape
                initial = self._initial(rule, slot, variable)
                make_slot(self, variable, initial, tf.TensorShape(shape), slot.name, tf.as_dtype(slot.dtype), slot.name)

    def _initial(self, rule: Rule, slot: Slot, variable: Any) -> Any:
        """Returns the initializer of a slot of a variable, which may be a slice of the rule's."""
        value = np.asarray(slot.value)
        if value.shape and rule.is_by_row(slot) and variable.shape[0] != rule.shape[0]:
            value = np.zeros((), value.dtype)

        def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
            constant = tf.constant(value, tf.as_dtype(slot.dtype))
            return constant if value.shape else tf.fill(shape, constant)

        return initial

    def _prepare(self) -> None:
        iterations = tf.cast(self._step, tf.int64) + self._rules.iterations
        values = {"iterations": iterations}
        if self._rate_variable is not None:
            values[RATE_KEY] = self._rate_variable.read_value()
        rate = self._rules.rate.compute(values) * tf.cast(self._rate_factor, tf.float32)
        if self._updates is not None:
            iterations = self._updates.read_value()
        self._shared = {"iterations": iterations, "rate": rate}
        self._kernels: dict[Kernel, dict[str, tf.Tensor]] = {}

    def _finish(self, update_ops: list[tf.Operation], name_scope: str) -> tf.Operation:
        if self._updates is None:
            return super()._finish(update_ops, name_scope)
        return counted(update_ops, self._updates, self._shared["iterations"], name_scope)

    def _of_kernel(self, kernel: Kernel) -> dict[str, tf.Tensor]:
        """Returns what the updates by a kernel have in common, made once."""
        if kernel not in self._kernels:
            self._kernels[kernel] = kernel.shared(self._shared["rate"], self._shared["iterations"])
        return self._kernels[kernel]

    def _rule_of(self, variable: Any) -> Rule:
        name = variable.name.removesuffix(":0")  # that of a worker's own value is the model's, and its operation's not
        found = self._rules.rules.get(name) or self._rules.rules.get(re.sub(r"/part_\d+$", "", name))
        if found is None:
            raise ModelError(
                f"the optimizer {self._rules.optimizer_name} has no rule for variable {name}: it got no gradient when "
                "the model was traced."
            )
        return found

    def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> tf.Operation:
        rule = self._rule_of(handle)
        if rule.kernel:
            slots = {slot.name: self.get_slot(handle, slot.name) for slot in rule.slots}
            return rule.kernel.apply(handle, slots, grad, self._of_kernel(rule.kernel))
        variables = self._variables(handle)
        values = {name: one.read_value() for name, one in variables.items() if name in rule.inputs}
        new = self._compute(handle, grad, values)
        with tf.control_dependencies(list(new.values())):  # no assignment before a read
            return tf.group(*(variables[name].assign(value, read_value=False) for name, value in new.items()))

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        rule = self._rule_of(handle)
        if rule.whole_reason or rule.dense_reason:
            dense = tf.scatter_nd(indices[:, tf.newaxis], grad, tf.cast(handle.shape, indices.dtype))
            return self._resource_apply_dense(dense, handle)
        variables = self._variables(handle)
        by_row = {"variable"} | {f"slot_{i}" for i, slot in enumerate(rule.slots) if rule.is_by_row(slot)}
        values = {
            name: one.sparse_read(indices) if name in by_row else one.read_value()
            for name, one in variables.items()
            if name in rule.inputs
        }
        new = self._compute(handle, grad, values)
        with tf.control_dependencies(list(new.values())):
            return tf.group(
                *(
                    _scatter(variables[name], indices, value)
                    if name in by_row
                    else variables[name].assign(value, read_value=False)
                    for name, value in new.items()
                )
            )

    def _variables(self, handle: Any) -> dict[str, Any]:
        """Returns a variable and its slots by the names that the rule has for them."""
        slots = enumerate(self._rule_of(handle).slots)
        return {"variable": handle, **{f"slot_{i}": self.get_slot(handle, slot.name) for i, slot in slots}}

    def _compute(self, handle: Any, grad: tf.Tensor, values: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        gradient = tf.cast(grad, handle.dtype.base_dtype)
        return self._rule_of(handle).compute({"gradient": gradient, **self._shared, **values})


def _scatter(variable: Any, indices: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=indices, updates=rows)
