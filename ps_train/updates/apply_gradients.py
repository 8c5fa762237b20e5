"""How a ps makes new values of gradients: by the optimizers that the model asks for.

    rule = Rule(ps=0, job=job, model=model, variables=variables, clock=clock)
    rule.apply({"w/part_0": gradient})

Every ps has optimizers of its own, so that rates and powers of beta live where they are used.  They are made where the
update is, under the ps's lock: what depends on the global step (a schedule of the learning rate, AdagradDA) is computed
from the ps's own clock at the moment of the update (docs/decisions/0022-the-step-of-an-update.md).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.errors import ModelError
from ps_train.model import Model
from ps_train.placement.global_step import overriding_global_step
from ps_train.placement.variables import ps_device, scatter_rows
from ps_train.tables.vocabulary import Vocabulary
from ps_train.transport.sparse_mask import to_indexed_slices

_WHOLE = ("ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceApply")
"""How the types of operations begin that read or write all rows of a table."""


_ADDING_UP = v1.train.Optimizer._resource_apply_sparse_duplicate_indices


class PsOptimizer:
    """One ps's optimizers.

    Args:
      variables: slice name to variable.
      clock: int64 variable on this ps, the number of updates made; it is the global step of its optimizers.
      tables: names of the slices of tables.
      vocabularies: slice name to vocabulary, of those that are open.

    Attributes:
      made: group to the variables that its optimizer has made, in order.
    """

    def __init__(
        self,
        ps: int,
        job: Job,
        model: Model,
        variables: Mapping[str, Any],
        clock: tf.Variable,
        tables: frozenset[str] = frozenset(),
        vocabularies: Mapping[str, Vocabulary] | None = None,
    ) -> None:
        self._vocabularies = vocabularies or {}
        self._job, self._model, self._variables, self._tables = job, model, variables, tables
        self._device, self._clock = ps_device(ps), clock
        self._first: dict[str, Any] = {}
        self.slots: dict[str, list[Any]] = {}

    def apply(self, gradients: Mapping[str, Any], slowdown: tf.Tensor | None = None) -> tf.Operation:
        """See `Shard.apply`.  May be built more than once; all that is built uses the same slots."""
        with tf.device(self._device):
            optimizers = self._optimizers(slowdown)
            admitted = {name: self._vocabularies[name].admit(gradients[name]) for name in self._open(gradients)}
            ready = tf.group(*[some.done for some in admitted.values()])
            pairs: dict[str, list[tuple[Any, Any]]] = {}
            for name, gradient in to_indexed_slices(gradients).items():
                gradient = admitted[name].gradient if name in admitted else gradient
                pairs.setdefault(optimizer_prefix(name, optimizers), []).append((gradient, self._variables[name]))
            with tf.control_dependencies([ready]):
                done = [self._apply(optimizers[group], group, some) for group, some in pairs.items()]
            # Which slots there are is only known when the optimizers have been built.
            ready._add_control_inputs([self._reset_slots(name, some.fresh) for name, some in admitted.items()])
        self._check_tables(gradients)
        return tf.group(*done)

    def _open(self, gradients: Mapping[str, Any]) -> list[str]:
        return [name for name in self._vocabularies if name in gradients]

    def _reset_slots(self, name: str, fresh: tf.Tensor) -> tf.Operation:
        """Gives those rows of the slots of a slice (int64 [k]) the values that slots begin with."""
        rows, done = self._variables[name].shape[0], []
        for slot in (variable for made in self.slots.values() for variable in made):
            if slot.op.name.startswith(f"{name}/") and slot.shape[:1] == [rows]:
                first = slot.sparse_read(
                    tf.fill(tf.shape(fresh), tf.constant(self._vocabularies[name].pristine, tf.int64))
                )
                done.append(scatter_rows(slot, fresh, first))
        return tf.group(*done)

    def _apply(self, optimizer: Any, group: str, pairs: list[tuple[Any, Any]]) -> tf.Operation:
        is_first = group not in self.slots
        before = {id(v) for v in v1.global_variables()}
        done = optimizer.apply_gradients(pairs)
        made = [v for v in v1.global_variables() if id(v) not in before]
        if made and not is_first:
            raise ModelError(
                f"the optimizer {type(optimizer).__name__} makes {made[0].op.name} again for every update: make its "
                "variables by its methods _zeros_slot and _create_non_slot_variable."
            )
        self.slots.setdefault(group, []).extend(made)
        return done

    def _check_tables(self, gradients: Mapping[str, Any]) -> None:
        graph = v1.get_default_graph()
        for name in sorted(self._tables & gradients.keys()):
            handle = self._variables[name].handle
            inside = handle if handle.graph is graph else graph.capture(handle)
            for reader in inside.consumers():
                if reader.type.startswith(_WHOLE) and not _of_the_variable(reader, self._variables[name]):
                    raise ModelError(
                        f"the optimizer would touch all rows of table {name} at every step, by {reader.name} "
                        f"({reader.type}): use sgd, momentum, adagrad, ftrl, rmsprop, lazy_adam or rowwise_adagrad."
                    )

    def _optimizers(self, slowdown: tf.Tensor | None) -> dict[str, Any]:
        """The beginning of variables' names to their optimizer."""
        name = self._job.optimizer or self._model.default_optimizer
        rate = self._job.learning_rate or self._model.default_learning_rate
        with overriding_global_step(self._clock):
            found = self._model.optimizer(name, rate if slowdown is None else rate / slowdown)
        groups = dict(found) if isinstance(found, Mapping) else {"": found}
        return {group: self._own(group, optimizer) for group, optimizer in groups.items()}

    def _own(self, group: str, optimizer: Any) -> Any:
        """A copy, in case that the model gives the same one twice, with the slots of the first one of its group."""
        if not isinstance(optimizer, v1.train.Optimizer):
            raise ModelError(
                f"optimizer() returned {type(optimizer).__name__}: return a tf.compat.v1.train.Optimizer, or a "
                "dict from the beginning of variables' names to one."
            )
        own = copy.copy(optimizer)
        own._slots, own._non_slot_dict = {}, {}
        first = self._first.setdefault(group, own)
        own._slots, own._non_slot_dict = first._slots, first._non_slot_dict
        if self._job.update != "sync":
            _skip_deduplication(own)
        return own


def _skip_deduplication(optimizer: Any) -> None:
    """TensorFlow's optimizers add up the gradients of rows that come more than once, which takes as long as to read
    them.  One worker's push has every row once; in a round the same row may come from several."""
    if type(optimizer)._resource_apply_sparse_duplicate_indices is _ADDING_UP:
        optimizer._resource_apply_sparse_duplicate_indices = optimizer._resource_apply_sparse


def optimizer_prefix(name: str, groups: Mapping[str, Any]) -> str:
    """The longest of the groups that a variable's name begins with."""
    found = [group for group in groups if name.startswith(group)]
    if not found:
        raise ModelError(
            f"optimizer() has none for variable {name}, only for names that begin with {', '.join(groups)}: "
            'add one for the rest under "".'
        )
    return max(found, key=len)


def _of_the_variable(reader: tf.Operation, variable: Any) -> bool:
    """Made together with the variable itself: its initial value, and the reading that nobody uses."""
    return reader is variable.initializer or (
        not any(output.consumers() for output in reader.outputs) and (reader.type == "ReadVariableOp")
    )
