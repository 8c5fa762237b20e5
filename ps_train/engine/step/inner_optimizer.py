"""The inner optimizer of local steps: the job's optimizer, applied to a worker's own values.

    inner = InnerOptimizer(spec, rate_divisors)
    inner.apply({"w": variable}, {"w": gradient}, examples, step)      # in each local step
    inner.pulled_rate(after=[version])                                 # with each pull
    inner.fresh()                                                      # after a round

Its slots are the worker's, and are in no checkpoint: those of several workers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import keep_whole
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.local_rows import slot_of_any_length
from ps_train.engine.updates.gradients.apply_gradients import (
    AppliedOptimizers,
    RulesOfModel,
    optimizer_groups,
)
from ps_train.engine.updates.gradients.restarts import Restarts
from ps_train.engine.updates.modes.base import RateDivisor
from ps_train.engine.variables.global_step import overriding_global_step
from ps_train.engine.variables.variables import CheckpointEntry, ps_device
from ps_train.engine.variables.worker_state import OWN
from ps_train.modeling.model import RATE_KEY

_SCOPE = "ps_train/inner"


class InnerOptimizer:
    """The optimizer; use it in the worker's device scope.

    Args:
      spec: specification of the replica's graph.
      rate_divisors: divisors of the learning rate.

    Attributes:
      rules: the update rules of the job.
      row_slots: after `apply`, returns the slots of a table by its name; see `AppliedOptimizers`.
    """

    def __init__(self, spec: GraphSpec, rate_divisors: Sequence[RateDivisor]) -> None:
        self.rules = RulesOfModel(spec.job, spec.model)
        self._rate_divisors = rate_divisors
        self._slots: list[Any] = []
        self._rate: list[Any] = []

    def apply(
        self,
        variables: Mapping[str, Any],
        gradients: Mapping[str, Any],
        examples: tf.Tensor,
        step: tf.Tensor,
        is_used: tf.Tensor | None = None,
        others: Callable[[], Sequence[tf.Operation]] = tuple,
        restarts: Restarts | None = None,
    ) -> tf.Operation:
        """Returns the operation that applies the gradients of a batch, and makes the slots.

        Args:
          variables: the worker's, by the names of the model's.
          gradients: of these; those of rows are `tf.IndexedSlices`.
          examples: float32 scalar, the number of examples of the batch.
          step: int64 scalar, the global step.
          is_used: bool scalar, whether they are applied; None if they always are.
          others: makes what else is changed with them.
          restarts: the variables that are pulled without their slots.
        """
        optimizers = AppliedOptimizers("", self.rules, variables, step, restarts=restarts)

        def applied() -> tf.Operation:
            divisors = [divisor(examples, step) for divisor in self._rate_divisors]
            # Its slots would otherwise take the names that those of the outer optimizer have in checkpoints.
            with v1.variable_scope(_SCOPE, auxiliary_name_scope=False, custom_getter=slot_of_any_length):
                done = optimizers.apply(gradients, divisors)
            return tf.group(done, *others())

        before = {id(variable) for variable in v1.global_variables()}
        if is_used is None:
            done = applied()
        else:
            done = v1.cond(is_used, applied, tf.no_op)
            keep_whole(done)
        self._slots = _moved([variable for variable in v1.global_variables() if id(variable) not in before])
        self.row_slots = optimizers.row_slots
        return done

    def hides_nan(self, step: tf.Tensor) -> bool:
        """Returns True if an optimizer makes a finite value from a gradient that is not finite; FTRL makes it 0."""
        with overriding_global_step(step):
            groups = optimizer_groups(self.rules.optimizers([]))
        return any(isinstance(one, v1.train.FtrlOptimizer) for one in groups.optimizers.values())

    def pulled_rate(self, after: Sequence[tf.Tensor]) -> list[tf.Operation]:
        """Makes the learning rate that may be changed from outside, on ps 0; returns the operation that pulls it.

        An optimizer with such a rate has it in a variable, which is then no slot of the worker.

        Args:
          after: tensors on ps 0, after which it is read.
        """
        for one in self._slots:
            first = tf.get_static_value(one.initial_value)
            if one.op.name.rpartition("/")[2] == RATE_KEY and first is not None and np.ndim(first) == 0:
                self._slots = [other for other in self._slots if other is not one]
                with tf.device(ps_device(0)):
                    rate = v1.get_variable(RATE_KEY, initializer=first, trainable=False, use_resource=True)
                    with tf.control_dependencies(after):
                        value = rate.read_value()
                self._rate = [rate]
                return [one.assign(value, read_value=False)]
        return []

    def entries(self, follower: bool = False) -> list[CheckpointEntry]:
        """Returns the entry of the learning rate, if it may be changed from outside.

        Args:
          follower: True if optimizers on the ps have this rate, too, and save it.
        """
        return [CheckpointEntry(RATE_KEY, "", one, follower=follower, optional=True) for one in self._rate]

    @property
    def slots(self) -> dict[str, Any]:
        """The slots, by the keys that they would have in a checkpoint."""
        return {slot.op.name.removeprefix(f"{_SCOPE}/"): slot for slot in self._slots}

    def begun(self) -> list[tf.Operation]:
        """Returns the operations that make the slots those of a new session."""
        return [slot.initializer for slot in self._slots]

    def fresh(self) -> list[tf.Operation]:
        """Returns the operations that begin the slots anew."""
        return [slot.assign(tf.identity(slot.initial_value), read_value=False) for slot in self._slots]


def _moved(variables: list[Any]) -> list[Any]:
    """Moves variables from those of the program to the worker's own."""
    graph = v1.get_default_graph()
    of_program = graph.get_collection_ref(v1.GraphKeys.GLOBAL_VARIABLES)
    ids = {id(variable) for variable in variables}
    of_program[:] = [variable for variable in of_program if id(variable) not in ids]
    for variable in variables:
        graph.add_to_collection(OWN, variable)
    return variables
