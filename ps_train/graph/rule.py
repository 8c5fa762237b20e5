"""How a ps makes new values of gradients: by the optimizers that the model asks for.

    rule = Rule(ps=0, job=job, model=model, variables=variables, after=stamp)
    rule.apply({"w/part_0": gradient})

Every ps gets optimizers of its own, so that rates and powers of beta live where they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config import Job
from ps_train.errors import ModelError
from ps_train.graph.rows import sparse_again
from ps_train.graph.variables import ps_device, put_rows
from ps_train.graph.vocabulary import Vocabulary
from ps_train.model import Model

_WHOLE = ("ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceApply")
"""How the types of operations begin that read or write all rows of a table."""


_ADDING_UP = v1.train.Optimizer._resource_apply_sparse_duplicate_indices


class Rule:
    """One ps's optimizers.

    Args:
      variables: slice name to variable.
      after: what an optimizer reads (a rate that depends on the global step) is read after this.
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
        after: tf.Tensor,
        tables: frozenset[str] = frozenset(),
        vocabularies: Mapping[str, Vocabulary] | None = None,
    ) -> None:
        self._vocabularies = vocabularies or {}
        self._job, self._model, self._variables, self._tables = job, model, variables, tables
        self._device = ps_device(ps)
        with tf.device(self._device), tf.control_dependencies([after]):
            self._plain = self._optimizers(None)
        self.made: dict[str, list[Any]] = {group: [] for group in self._plain}

    def apply(self, gradients: Mapping[str, Any], slowdown: tf.Tensor | None = None) -> tf.Operation:
        """See `Shard.apply`.  May be built more than once, except with a slowdown."""
        with tf.device(self._device):
            optimizers = self._plain if slowdown is None else self._optimizers(slowdown)
            admitted = {name: self._vocabularies[name].admit(gradients[name]) for name in self._open(gradients)}
            ready = tf.group(*[some.done for some in admitted.values()])
            pairs: dict[str, list[tuple[Any, Any]]] = {}
            for name, gradient in sparse_again(gradients).items():
                gradient = admitted[name].gradient if name in admitted else gradient
                pairs.setdefault(group_of(name, optimizers), []).append((gradient, self._variables[name]))
            with tf.control_dependencies([ready]):
                done = [self._apply(optimizers[group], group, some) for group, some in pairs.items()]
            # Which slots there are is only known when the optimizers have been built.
            ready._add_control_inputs([self._renewed(name, some.fresh) for name, some in admitted.items()])
        self._check_tables(gradients)
        return tf.group(*done)

    def _open(self, gradients: Mapping[str, Any]) -> list[str]:
        return [name for name in self._vocabularies if name in gradients]

    def _renewed(self, name: str, fresh: tf.Tensor) -> tf.Operation:
        """Gives those rows of the slots of a slice (int64 [k]) the values that slots begin with."""
        rows, done = self._variables[name].shape[0], []
        for slot in (variable for made in self.made.values() for variable in made):
            if slot.op.name.startswith(f"{name}/") and slot.shape[:1] == [rows]:
                first = slot.sparse_read(
                    tf.fill(tf.shape(fresh), tf.constant(self._vocabularies[name].pristine, tf.int64))
                )
                done.append(put_rows(slot, fresh, first))
        return tf.group(*done)

    def _apply(self, optimizer: Any, group: str, pairs: list[tuple[Any, Any]]) -> tf.Operation:
        before = {id(v) for v in v1.global_variables()}
        done = optimizer.apply_gradients(pairs)
        self.made[group].extend(v for v in v1.global_variables() if id(v) not in before)
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
        found = self._model.optimizer(name, rate if slowdown is None else rate / slowdown)
        groups = dict(found) if isinstance(found, Mapping) else {"": found}
        for optimizer in groups.values():
            if not isinstance(optimizer, v1.train.Optimizer):
                raise ModelError(
                    f"optimizer() returned {type(optimizer).__name__}: return a tf.compat.v1.train.Optimizer, or a "
                    "dict from the beginning of variables' names to one."
                )
            if self._job.update != "sync":
                _trust(optimizer)
        return groups


def _trust(optimizer: Any) -> None:
    """TensorFlow's optimizers add up the gradients of rows that come more than once, which takes as long as to read
    them.  One worker's push has every row once; in a round the same row may come from several."""
    if type(optimizer)._resource_apply_sparse_duplicate_indices is _ADDING_UP:
        optimizer._resource_apply_sparse_duplicate_indices = optimizer._resource_apply_sparse


def group_of(name: str, groups: Mapping[str, Any]) -> str:
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
