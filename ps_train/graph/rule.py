"""How a ps makes new values of gradients: by the optimizer that the model asks for.

    rule = Rule(ps=0, job=job, model=model, variables=variables, after=stamp)
    rule.apply({"w/part_0": gradient})

Every ps gets an optimizer of its own, so that rates and powers of beta live where they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config import Job
from ps_train.errors import ModelError
from ps_train.graph.rows import sparse_again
from ps_train.graph.variables import ps_device
from ps_train.model import Model


class Rule:
    """One ps's optimizer.

    Args:
      variables: slice name to variable.
      after: what the optimizer reads (a rate that depends on the global step) is read after this.

    Attributes:
      made: the variables that the optimizer has made, in order.
    """

    def __init__(self, ps: int, job: Job, model: Model, variables: Mapping[str, Any], after: tf.Tensor) -> None:
        self._job, self._model, self._variables = job, model, variables
        self._device = ps_device(ps)
        self.made: list[Any] = []
        with tf.device(self._device), tf.control_dependencies([after]):
            self._plain = self._optimizer(None)

    def apply(self, gradients: Mapping[str, tf.Tensor], slowdown: tf.Tensor | None = None) -> tf.Operation:
        """See `Shard.apply`.  May be built more than once, except with a slowdown."""
        if not gradients:
            return tf.no_op()
        before = {id(v) for v in v1.global_variables()}
        with tf.device(self._device):
            optimizer = self._plain if slowdown is None else self._optimizer(slowdown)
            pairs = [(gradient, self._variables[name]) for name, gradient in sparse_again(gradients).items()]
            done = optimizer.apply_gradients(pairs)
        self.made.extend(v for v in v1.global_variables() if id(v) not in before)
        return done

    def _optimizer(self, slowdown: tf.Tensor | None) -> Any:
        name = self._job.optimizer or self._model.default_optimizer
        rate = self._job.learning_rate or self._model.default_learning_rate
        optimizer = self._model.optimizer(name, rate if slowdown is None else rate / slowdown)
        if not isinstance(optimizer, v1.train.Optimizer):
            raise ModelError(f"optimizer() returned {type(optimizer).__name__}: return a tf.compat.v1.train.Optimizer.")
        return optimizer
