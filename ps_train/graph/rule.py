"""How a ps makes new values of gradients: by the optimizer that the model asks for.

Every ps gets an optimizer of its own, so that rates and powers of beta live where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config import Job
from ps_train.errors import ModelError
from ps_train.graph.variables import ps_device
from ps_train.model import Model


def applier(
    ps: int, job: Job, model: Model, variables: Mapping[str, Any], made: list[Any]
) -> Callable[[Mapping[str, tf.Tensor], tf.Tensor | None], tf.Operation]:
    """What applies slice gradients on one ps; see `Shard.apply`.  `made` collects the variables that it makes."""

    def apply(gradients: Mapping[str, tf.Tensor], slowdown: tf.Tensor | None) -> tf.Operation:
        if not gradients:
            return tf.no_op()
        before = {id(v) for v in v1.global_variables()}
        with tf.device(ps_device(ps)):
            rule = _optimizer(job, model, slowdown)
            done = rule.apply_gradients([(gradient, variables[name]) for name, gradient in gradients.items()])
        made.extend(v for v in v1.global_variables() if id(v) not in before)
        return done

    return apply


def _optimizer(job: Job, model: Model, slowdown: tf.Tensor | None) -> Any:
    name = job.optimizer or model.default_optimizer
    rate = job.learning_rate or model.default_learning_rate
    rule = model.optimizer(name, rate if slowdown is None else rate / slowdown)
    if not isinstance(rule, v1.train.Optimizer):
        raise ModelError(f"optimizer() returned {type(rule).__name__}: return a tf.compat.v1.train.Optimizer.")
    return rule
