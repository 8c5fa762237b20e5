"""Application of gradients on one ps, by the optimizers that the model asks for.

    optimizer = AppliedOptimizers(ps_device(0), RulesOfModel(job, model), variables, update_count)
    optimizer.apply({"w/part_0": gradient})

Every ps has its own optimizers, so rates and powers of beta live where they are used.  The optimizers are built inside
the update, under the ps's mutex.  Values that depend on the global step, such as a learning rate schedule, use the ps's
own update count at the time of the update (docs/decisions/0022-the-step-of-an-update.md).  AdagradDA has such values.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import (
    add_control_inputs,
    capture,
    make_accumulators_of_any_length,
    share_slots,
    skip_deduplication,
)
from ps_train.base.user_code import shown
from ps_train.config.job import Job
from ps_train.engine.transport.beside_rows import USES, beside_name, with_slots
from ps_train.engine.transport.sparse_mask import mask_name, to_indexed_slices
from ps_train.engine.transport.vocabulary import Vocabulary
from ps_train.engine.updates.gradients.restarts import Restarts, computes_from_slots
from ps_train.engine.variables.given_names import given_names
from ps_train.engine.variables.global_step import overriding_global_step
from ps_train.engine.variables.old_rows import OldRows, keep_old_rows
from ps_train.engine.variables.variables import OptimizerVariable, ps_index
from ps_train.modeling.model import Model
from ps_train.modeling.tables.row_allocator import scatter_rows

_WHOLE_TABLE_OPS = ("ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceApply")
"""Prefixes of the types of operations that read or write all rows of a table."""

_WHOLE_WRITES = ("Assign", "ResourceApply")


def _key_with_group(group: str, kind: str, number: int) -> str:
    key = "/".join([*([group.rstrip("/")] if group else []), kind])
    return f"{key}_{number}" if number > 1 else key


def _key_with_variable(group: str, variable: str, kind: str) -> str:
    return f"{variable}/{kind}"


class RuleSource(Protocol):
    """What makes the optimizers of an update."""

    def optimizers(self, rate_divisors: Sequence[tf.Tensor]) -> Any:
        """Returns an optimizer, several by groups of variables, or `OptimizerGroups`.

        Args:
          rate_divisors: float32 scalars that divide the learning rate.
        """


class RulesOfModel:
    """The optimizers that a model makes for a job.

    Args:
      job: has the optimizer's name and learning rate.
      model: the model.
    """

    def __init__(self, job: Job, model: Model) -> None:
        self._job, self._model = job, model

    def optimizers(self, rate_divisors: Sequence[tf.Tensor]) -> Any:
        """Returns what the model's optimizer() returns."""
        name = self._job.optimizer_name(self._model.default_optimizer)
        return self._model.optimizer(
            name, divided(self._job.learning_rate or self._model.default_learning_rate, rate_divisors)
        )


def divided(rate: float, divisors: Sequence[tf.Tensor]) -> Any:
    """Returns a learning rate over all divisors: the number itself without any."""
    return rate / functools.reduce(operator.mul, divisors) if divisors else rate


@dataclasses.dataclass(frozen=True)
class OptimizerGroups:
    """The optimizers of a model, each with a group of variables.

    Attributes:
      optimizers: group to its optimizer.
      group_of: returns the group of a variable, of its slices or of a table by its name; raises ModelError for none.
      key_of: returns the checkpoint's key of a variable that belongs to no single variable, as Adam's powers of beta:
        of a group, a kind of variable, and the number of this one among the group's of this kind, from 1.
      slot_key_of: returns the checkpoint's key of a slot: of a group, the slot's variable, and its kind.
    """

    optimizers: Mapping[str, Any]
    group_of: Callable[[str], str]
    key_of: Callable[[str, str, int], str] = _key_with_group
    slot_key_of: Callable[[str, str, str], str] = _key_with_variable


class AppliedOptimizers:
    """Optimizers of the variables of one place: a ps, or a worker with values of its own.

    Args:
      device: the device of a ps; "" for the present one.
      rules: make the optimizers.
      variables: slice name to variable.
      update_count: int64 variable or tensor there, the number of updates made; the global step of the optimizers.
      sums_rows: whether a row may occur several times in a gradient.
      tables: names of the slices of tables.
      vocabularies: slice name to vocabulary, for slices with an open vocabulary.
      keeps_rows: names of the slices of tables whose old rows updates keep for checkpoints.
      restarts: where slots may begin anew; None for nowhere.

    Attributes:
      variables, vocabularies: as given.
      slots: group to the variables that its optimizer has made, in order.
      old_rows: slice name to those of its variables of which updates keep old rows here; a vocabulary keeps its own.
      key_of, slot_key_of: see `OptimizerGroups`.
    """

    def __init__(
        self,
        device: str,
        rules: RuleSource,
        variables: Mapping[str, Any],
        update_count: Any,
        sums_rows: bool = False,
        tables: frozenset[str] = frozenset(),
        vocabularies: Mapping[str, Vocabulary] | None = None,
        keeps_rows: frozenset[str] = frozenset(),
        restarts: Restarts | None = None,
    ) -> None:
        self._restarts = restarts
        self._keeps_rows, self._sums_rows = keeps_rows, sums_rows
        self.old_rows: dict[str, OldRows] = {}
        self.vocabularies = vocabularies or {}
        self._rules, self.variables, self._tables = rules, variables, tables
        self._device, self._update_count = device, update_count
        self._first_optimizers: dict[str, Any] = {}
        self.slots: dict[str, list[OptimizerVariable]] = {}
        self.key_of: Callable[[str, str, int], str] = _key_with_group
        self.slot_key_of: Callable[[str, str, str], str] = _key_with_variable

    def apply(
        self, gradients: Mapping[str, Any], rate_divisors: Sequence[tf.Tensor] = (), steps: int | tf.Tensor = 1
    ) -> tf.Operation:
        """Builds an update, see `ParameterShard.apply`; every update that is built uses the same slots."""
        gradients = with_slots(gradients)
        with tf.device(self._device):
            groups = self._groups(rate_divisors)
            admitted = {
                name: self.vocabularies[name].admit(
                    gradients[name], gradients.get(mask_name(name)), gradients.get(beside_name(USES, name)), steps
                )
                for name in self._open(gradients)
            }
            ready = tf.group(*[admission.done for admission in admitted.values()])
            pairs: dict[str, list[tuple[Any, Any]]] = {}
            written: dict[str, tf.Tensor] = {}
            for name, gradient in to_indexed_slices(gradients).items():
                gradient = admitted[name].gradient if name in admitted else gradient
                if name in self._keeps_rows:
                    written[name] = gradient.indices
                pairs.setdefault(groups.group_of(name), []).append((gradient, self.variables[name]))
            with tf.control_dependencies([ready]):
                done = [self._apply(groups.optimizers[group], group, some) for group, some in pairs.items()]
            # The slots are known only now that the optimizers have been built.
            for name in written.keys() & admitted.keys():
                written[name] = tf.concat([written[name], admitted[name].new_rows], 0)
            kept = self._keep(written)
            with tf.control_dependencies(kept):
                reset = [self._reset_slots(name, some.new_rows) for name, some in admitted.items()]
            add_control_inputs(ready, [*kept, *reset])
        self._check_tables(gradients)
        return tf.group(*done)

    def row_slots(self, name: str) -> list[Any]:
        """Returns the slots of a variable, in the order of their names; after `apply`."""
        optimizer, variable = self._first_optimizers[self._group_of(name)], self.variables[name]
        found = [optimizer.get_slot(variable, slot) for slot in optimizer.get_slot_names()]
        return [slot for slot in found if slot is not None]

    def apply_residuals(self, residuals: Mapping[str, tf.Tensor]) -> tf.Operation:
        """Moves values by the difference that residuals make to one step.

        It is the step with the residuals as gradients, minus the step with zeros: no old momentum moves a value, and
        no optimizer moves it further than in a step.  The optimizers' variables stay as they are.  A value whose
        residual is zero does not change.

        Args:
          residuals: slice name to what was left out of its gradients, dense, on this ps.  Call the method after
            `apply`, which makes the slots.
        """
        with tf.device(self._device):
            groups = self._groups([])
            names: dict[str, list[str]] = {}
            for name in residuals:
                names.setdefault(groups.group_of(name), []).append(name)
            done = [
                self._move(groups.optimizers[group], group, {name: residuals[name] for name in some})
                for group, some in names.items()
            ]
        return tf.group(*done)

    def _move(self, optimizer: Any, group: str, residuals: Mapping[str, tf.Tensor]) -> tf.Operation:
        values = [self.variables[name] for name in residuals]
        made = [one.variable for one in self.slots[group]]
        own = [slot for slot in made if self._owner_of(slot) in (None, *residuals)]
        value_before, own_before = _read_all(values, after=[]), _read_all(own, after=[])

        def step(gradients: Sequence[tf.Tensor], after: Sequence[Any]) -> list[tf.Tensor]:
            with tf.control_dependencies(after):
                applied = self._apply(optimizer, group, list(zip(gradients, values, strict=True)))
            return _read_all(values, after=[applied])

        without = step([tf.zeros_like(one) for one in residuals.values()], [*value_before, *own_before])
        again = _assign_all([*values, *own], [*value_before, *own_before], after=without)
        with_them = step(list(residuals.values()), again)
        moved = [
            tf.where(tf.not_equal(residual, 0), before + (after - zero), before)
            for residual, before, after, zero in zip(residuals.values(), value_before, with_them, without, strict=True)
        ]
        kept = computes_from_slots(optimizer)
        return tf.group(
            *_assign_all(values, moved, after=with_them),
            *([] if kept else _assign_all(own, own_before, after=with_them)),
        )

    def _owner_of(self, slot: Any) -> str | None:
        """Returns the slice that a slot belongs to by its name; None for a variable of a whole optimizer."""
        owners = [name for name in self.variables if slot.op.name.startswith(f"{name}/")]
        return max(owners, key=len, default=None)

    def _open(self, gradients: Mapping[str, Any]) -> list[str]:
        return [name for name in self.vocabularies if name in gradients]

    def _reset_slots(self, name: str, fresh: tf.Tensor) -> tf.Operation:
        """Resets rows (int64 [k]) of a slice's slots to the slots' initial values."""
        done = []
        for slot in self._slots_by_row(name):
            initial = slot.sparse_read(
                tf.fill(tf.shape(fresh), tf.constant(self.vocabularies[name].unassigned_row, tf.int64))
            )
            done.append(scatter_rows(slot, fresh, initial))
        return tf.group(*done)

    def _slots_by_row(self, name: str) -> list[Any]:
        """Returns the slots of a slice that have its rows."""
        rows = self.variables[name].shape[0]
        slots = [one.variable for slots in self.slots.values() for one in slots]
        return [slot for slot in slots if slot.op.name.startswith(f"{name}/") and slot.shape[:1] == [rows]]

    def _keep(self, written: Mapping[str, tf.Tensor]) -> list[tf.Operation]:
        """Returns the operation that keeps old rows before an update; none if there is no large table.

        Args:
          written: slice name to the rows that the update writes, int32 or int64 [n].
        """
        pairs = []
        for name, rows in written.items():
            if name not in self.old_rows:
                slots = [slot for slot in self._slots_by_row(name) if slot.dtype.base_dtype == tf.float32]
                slots = [slot for slot in slots if not _writers_of_all_rows(slot)]
                variables = [*([] if name in self.vocabularies else [self.variables[name]]), *slots]
                if not variables:
                    continue
                self.old_rows[name] = OldRows(f"{name}/updated", variables)
            pairs.append((self.old_rows[name], rows))
        return [keep_old_rows(ps_index(pairs[0][0].variables[0]), pairs)] if pairs else []

    def _apply(self, optimizer: Any, group: str, pairs: list[tuple[Any, Any]]) -> tf.Operation:
        is_first = group not in self.slots
        before = {id(v) for v in v1.global_variables()}
        with given_names() as names:
            done = optimizer.apply_gradients(pairs)
        made = [v for v in v1.global_variables() if id(v) not in before]
        if made and not is_first:
            raise ModelError(
                f"the optimizer {type(optimizer).__name__} makes {made[0].op.name} again for every update: make its "
                "variables by its methods _zeros_slot and _create_non_slot_variable."
            )
        self.slots.setdefault(group, []).extend(OptimizerVariable(v, names.get(id(v), v.op.name)) for v in made)
        return done

    def _check_tables(self, gradients: Mapping[str, Any]) -> None:
        graph = v1.get_default_graph()
        for name in sorted(self._tables & gradients.keys()):
            for reader in capture(graph, self.variables[name].handle).consumers():
                if reader.type.startswith(_WHOLE_TABLE_OPS) and not _of_the_variable(reader, self.variables[name]):
                    raise ModelError(
                        f"the optimizer would touch all rows of table {name} at every step, by {reader.name} "
                        f"({reader.type}): use sgd, momentum, adagrad, ftrl, rmsprop, lazy_adam or rowwise_adagrad."
                    )

    def _groups(self, rate_divisors: Sequence[tf.Tensor]) -> OptimizerGroups:
        with overriding_global_step(self._update_count):
            found = self._rules.optimizers(rate_divisors)
        groups = optimizer_groups(found)
        self.key_of, self.slot_key_of, self._group_of = groups.key_of, groups.slot_key_of, groups.group_of
        own = {group: self._own(group, optimizer) for group, optimizer in groups.optimizers.items()}
        return dataclasses.replace(groups, optimizers=own)

    def _own(self, group: str, optimizer: Any) -> Any:
        """Copies an optimizer, which the model may return twice, and gives the copy its group's slots."""
        own = copy.copy(optimizer)
        share_slots(own, self._first_optimizers.setdefault(group, own))
        if isinstance(own, v1.train.ProximalAdagradOptimizer):  # a worker does not know how many rows it will have
            make_accumulators_of_any_length(own, v1.constant_initializer)
        if self._restarts is not None:
            self._restarts.allow(own)
        if not self._sums_rows:
            skip_deduplication(own)  # summing takes as long as reading the rows
        return own


def _read_all(variables: Sequence[Any], after: Sequence[Any]) -> list[tf.Tensor]:
    with tf.control_dependencies(after):
        return [variable.read_value() for variable in variables]


def _assign_all(variables: Sequence[Any], values: Sequence[tf.Tensor], after: Sequence[Any]) -> list[tf.Operation]:
    with tf.control_dependencies(after):
        return [variable.assign(value, read_value=False) for variable, value in zip(variables, values, strict=True)]


def optimizer_groups(found: Any) -> OptimizerGroups:
    """Returns the groups of the value that a model's optimizer() returned.

    Raises:
      ModelError: it is neither an optimizer nor a dict of optimizers.
    """
    if isinstance(found, OptimizerGroups):
        return found
    groups = dict(found) if isinstance(found, Mapping) else {"": found}
    for group, optimizer in groups.items():
        if not isinstance(group, str) or not isinstance(optimizer, v1.train.Optimizer):
            where = f" for {group!r}" if isinstance(found, Mapping) else ""
            raise ModelError(
                f"optimizer() returned {shown(optimizer)}{where}: return a tf.compat.v1.train.Optimizer, or a dict "
                "from the beginning of variables' names to one."
            )
    return OptimizerGroups(groups, lambda name: _longest_prefix(name, groups))


def _longest_prefix(name: str, groups: Mapping[str, Any]) -> str:
    """Returns the longest of the groups' prefixes that the variable's name begins with.

    Raises:
      ModelError: the name begins with none of them.
    """
    found = [group for group in groups if name.startswith(group)]
    if not found:
        raise ModelError(
            f"optimizer() has none for variable {name}, only for names that begin with {', '.join(groups)}: "
            'add one for the rest under "".'
        )
    return max(found, key=len)


def _writers_of_all_rows(slot: Any) -> list[tf.Operation]:
    """Returns the operations of the present graph that write a whole slot, except those made with it."""
    readers = capture(v1.get_default_graph(), slot.handle).consumers()
    return [one for one in readers if one.type.startswith(_WHOLE_WRITES) and one is not slot.initializer]


def _of_the_variable(reader: tf.Operation, variable: Any) -> bool:
    """Tells an operation made with the variable itself: its initializer, or a read without consumers."""
    return reader is variable.initializer or (
        not any(output.consumers() for output in reader.outputs) and (reader.type == "ReadVariableOp")
    )
