"""The outer optimizer of local steps: how the ps apply what workers have changed in a round.

    rules = OuterRules(job, workers=4, inner=RulesOfModel(job, model))
    rules.optimizers([])                # one, for all variables

A worker pushes `start - now`, the difference that its local steps have made, as one gradient.

- `sgd`: gradient descent.  With rate 1 and the mean of all workers it is local SGD (Stich 2019, "Local SGD Converges
  Fast and Communicates Little").
- `nesterov`: Nesterov momentum, which is DiLoCo under `sync` (Douillard et al. 2023).  Where differences are applied
  one by one, momentum would count those of one moment several times; there it is delayed (`DelayedNesterov`).
- `elastic`: elastic averaging (Zhang, Choromanska and LeCun 2015, "Deep learning with Elastic Averaging SGD"): the
  gradient is the distance of the worker's values from those of the ps, of which both sides give in a part.

The rows of tables move by their differences alone (`AddedRows`): a row that comes once in many rounds would be moved
by a momentum of long ago.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import create_slots, make_slot, make_variable_once, share_slots
from ps_train.config.job import Job
from ps_train.engine.updates.gradients.apply_gradients import (
    OptimizerGroups,
    RuleSource,
    divided,
    optimizer_groups,
)
from ps_train.modeling.optimizers import RowWiseAdagrad, counted

_EASGD_BETA = 0.9
"""The part of its distance from the mean of all workers that the ps give in at a round, by default, as in the paper."""


class OuterRules:
    """The outer optimizer that a job names.

    Args:
      job: the job.
      workers: number of workers at the start.
      inner: makes the optimizers of local steps.
      tables: names of the tables, and of their slices, whose rows workers train in local steps.
    """

    def __init__(self, job: Job, workers: int, inner: RuleSource, tables: Collection[str] = ()) -> None:
        self._name, self._given = job.outer_optimizer or "sgd", job.outer_arguments()
        self._is_mean, self._rows_are_mean = job.update == "sync", job.rows_are_mean
        self._workers, self._inner, self._tables = workers, inner, tables

    @property
    def alpha(self) -> float:
        """The part of its distance from the ps that a worker gives in, under `elastic`."""
        return float(self._given["alpha"] or min(1.0, _EASGD_BETA / self._workers))

    def optimizers(self, rate_divisors: Sequence[tf.Tensor]) -> Any:
        """Returns the optimizers of tables and of all others."""
        dense = self._dense(divided(self._rate(), rate_divisors))
        if not self._tables:
            return OptimizerGroups({_OUTER: dense}, lambda name: _OUTER, slot_key_of=_outer_key)
        inner, prefix = optimizer_groups(self._inner.optimizers([])), "rows of "
        given = self._given["learning_rate"] if self._name == "sgd" else None
        rate = divided(float(given or (1.0 if self._rows_are_mean else 1.0 / self._workers)), rate_divisors)
        rows = {f"{prefix}{group}": AddedRows(rate, one) for group, one in inner.optimizers.items()}
        return OptimizerGroups(
            {_OUTER: dense, **rows},
            lambda name: f"{prefix}{inner.group_of(name)}" if name in self._tables else _OUTER,
            slot_key_of=lambda group, variable, kind: (
                _outer_key(group, variable, kind)
                if group == _OUTER
                else inner.slot_key_of(group.removeprefix(prefix), variable, kind)
            ),
        )

    def _dense(self, rate: Any) -> v1.train.Optimizer:
        if self._name != "nesterov":
            return v1.train.GradientDescentOptimizer(rate)
        momentum = float(self._given["momentum"] or 0.0)
        if self._is_mean:
            return v1.train.MomentumOptimizer(rate, momentum, use_nesterov=True)
        return DelayedNesterov(rate, momentum, self._workers)

    def _rate(self) -> float:
        if self._name == "elastic":
            # The mean of the distances of all workers stands for their sum.
            return self.alpha * self._workers if self._is_mean else self.alpha
        given = self._given["learning_rate"]
        return float(given or (1.0 if self._is_mean else 1.0 / self._workers))


_OUTER = "outer"
"""The group of all values but rows: no group of a model, whose optimizers may be there too."""


def _outer_key(group: str, variable: str, kind: str) -> str:
    """Returns the checkpoint's key of a slot: a job may resume from one whose own optimizer has slots of this kind."""
    return f"{variable}/outer_{kind.lower()}"


_SUMS = (
    v1.train.AdagradOptimizer,
    v1.train.FtrlOptimizer,
    v1.train.ProximalAdagradOptimizer,
    RowWiseAdagrad,
)
"""Optimizers whose slots are sums over all steps, to which workers may add at the same time."""


@runtime_checkable
class TellsItsSlots(Protocol):
    """An optimizer of which the class alone does not tell what its slots are.

    Attributes:
      shown_name: its name for people.
    """

    shown_name: str

    def adds_to_slots(self, variable: Any) -> bool:
        """Returns True if what updates have changed in the slots of a variable's rows can be added."""


def _adds_to_slots(optimizer: Any, variable: Any) -> bool:
    return optimizer.adds_to_slots(variable) if isinstance(optimizer, TellsItsSlots) else isinstance(optimizer, _SUMS)


def _shown(optimizer: Any) -> str:
    return optimizer.shown_name if isinstance(optimizer, TellsItsSlots) else type(optimizer).__name__


class AddedRows(v1.train.Optimizer):
    """What local steps have changed in rows of tables: rows move by the differences, and slots grow by theirs.

    Gradients are those of `beside_rows.with_slots`: IndexedSlices [n, row and slots].

    Args:
      learning_rate: the part of a row's difference by which it moves, a number or a tensor.
      inner: the optimizer of local steps, whose slots these are.
    """

    def __init__(self, learning_rate: Any, inner: v1.train.Optimizer) -> None:
        super().__init__(use_locking=False, name="AddedRows")
        self._learning_rate, self._inner = learning_rate, inner

    def _create_slots(self, var_list: list[Any]) -> None:
        share_slots(self._inner, self)
        create_slots(self._inner, var_list)
        if self.get_slot_names() and not all(_adds_to_slots(self._inner, one) for one in var_list):
            kind, name = _shown(self._inner), var_list[0].op.name.partition("/part_")[0]
            raise ModelError(
                f"local steps are not possible with {kind} for table {name}: what several workers have changed in its "
                "slots cannot be added; use sgd, adagrad, rowwise_adagrad or ftrl, or --local_tables=false."
            )

    def _prepare(self) -> None:
        self._rate = tf.convert_to_tensor(self._learning_rate, name="learning_rate")

    def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> tf.Operation:
        raise ModelError(f"the gradient of table {handle.op.name} is not one of rows.")

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        slots = [self.get_slot(handle, name) for name in self.get_slot_names()]
        variables = [handle, *(slot for slot in slots if slot is not None)]
        parts = tf.split(grad, [one.shape[1:].num_elements() for one in variables], axis=1)
        added = [-tf.cast(self._rate, grad.dtype) * parts[0], *parts[1:]]
        return tf.group(
            *(
                tf.raw_ops.ResourceScatterAdd(
                    resource=one.handle, indices=indices, updates=tf.reshape(part, [-1, *one.shape[1:]])
                )
                for one, part in zip(variables, added, strict=True)
            )
        )

    def _resource_apply_sparse_duplicate_indices(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> Any:
        return self._resource_apply_sparse(grad, handle, indices)  # what is added need not be summed before


class DelayedNesterov(v1.train.Optimizer):
    """Nesterov momentum for differences that arrive one by one (Liu et al. 2024, "Asynchronous Local-SGD Training").

    Each of them moves the values by its part, one over `delay`, without momentum.  Every `delay` of them their mean
    joins the momentum, which then moves the values once.

    Args:
      learning_rate: the learning rate, a number or a tensor.
      momentum: the part of the momentum that is kept, 0 to below 1.
      delay: number of differences of which the momentum gets the mean.
      name: prefix of the names of the operations.
    """

    def __init__(self, learning_rate: Any, momentum: float, delay: int, name: str = "DelayedNesterov") -> None:
        super().__init__(use_locking=False, name=name)
        self._learning_rate, self._momentum, self._delay = learning_rate, momentum, delay

    def _create_slots(self, var_list: list[Any]) -> None:
        beside = min(var_list, key=lambda variable: variable.op.name)
        self._count = make_variable_once(self, "outer_updates", np.int64(0), beside)
        for variable in var_list:
            zeros = v1.zeros_initializer(variable.dtype.base_dtype)
            for name in ("momentum", "sum"):
                make_slot(self, variable, zeros, variable.shape, name, key=name)

    def _prepare(self) -> None:
        number = self._count.read_value()
        self._is_last = tf.equal((number + 1) % self._delay, 0)
        self._number, self._rate = number, tf.convert_to_tensor(self._learning_rate, name="learning_rate")

    def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> tf.Operation:
        slots = [self.get_slot(handle, name) for name in ("momentum", "sum")]
        momentum, total = (slot.read_value() for slot in slots)
        rate = tf.cast(self._rate, grad.dtype)
        total = total + grad
        grown = tf.where(self._is_last, self._momentum * momentum + total / self._delay, momentum)
        moved = grad / self._delay + tf.where(self._is_last, self._momentum * grown, tf.zeros_like(grown))
        left = tf.where(self._is_last, tf.zeros_like(total), total)
        with tf.control_dependencies([moved, left]):  # no assignment before a read
            done = [slot.assign(value, read_value=False) for slot, value in zip(slots, (grown, left), strict=True)]
            return tf.group(*done, handle.assign_sub(rate * moved, read_value=False))

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        whole = tf.scatter_nd(indices[:, tf.newaxis], grad, tf.cast(tf.shape(handle), indices.dtype))
        return self._resource_apply_dense(whole, handle)

    def _finish(self, update_ops: list[tf.Operation], name_scope: str) -> tf.Operation:
        return counted(update_ops, self._count, self._number, name_scope)
