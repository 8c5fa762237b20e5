"""Momentum on the worker, for a push codec that sends few of the values (Lin et al. 2018, "Deep Gradient Compression").

A value that is sent once in a hundred steps stands for a hundred gradients, which a ps would give one step's momentum.
So each worker adds up velocities (`engine/transport/codecs/feedback.py`), and the ps only subtracts them.

    momenta = momenta_of(job, rules, names)             # {"w": Momentum(0.9, False)}
    rules = WithoutMomentum(rules, {"w/part_0"})        # whose optimizers have none for these slices
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import learning_rate_of, momentum_of
from ps_train.config.codec_spec import TOP_K, parse_codec
from ps_train.config.job import Job
from ps_train.config.refusals import refuse
from ps_train.engine.transport.codecs.feedback import Momentum
from ps_train.engine.updates.gradients.apply_gradients import RuleSource, optimizer_groups
from ps_train.engine.variables.global_step import overriding_global_step

_GROUP = "ps_train/without_momentum/"


def momenta_of(job: Job, rules: RuleSource, names: Iterable[str]) -> dict[str, Momentum]:
    """Returns variable name to momentum, of the variables whose momentum belongs on the worker.

    Raises:
      ConfigError: a momentum is not a number, so that the worker would not know it.
    """
    if all(codec.name != TOP_K for text in job.push_codecs for codec in parse_codec(text)):
        return {}
    with tf.Graph().as_default(), overriding_global_step(tf.constant(0, tf.int64)):
        groups = optimizer_groups(rules.optimizers([]))
        found = {}
        for name in names:
            optimizer = groups.optimizers[groups.group_of(name)]
            if type(optimizer) is v1.train.MomentumOptimizer:
                factor, use_nesterov = momentum_of(optimizer)
                if not isinstance(factor, int | float):
                    refuse(job, momentum=name)
                found[name] = Momentum(float(factor), bool(use_nesterov))
    return found


class WithoutMomentum:
    """Rules in which some slices have gradient descent in place of momentum.

    Args:
      rules: the rules.
      slices: names of the slices.
    """

    def __init__(self, rules: RuleSource, slices: Collection[str]) -> None:
        self._rules, self._slices = rules, slices

    def optimizers(self, rate_divisors: Sequence[tf.Tensor]) -> Any:
        """Returns the optimizers of the rules, with further groups for the slices."""
        groups = optimizer_groups(self._rules.optimizers(rate_divisors))
        plain = {
            _GROUP + group: v1.train.GradientDescentOptimizer(learning_rate_of(optimizer))
            for group, optimizer in groups.optimizers.items()
            if type(optimizer) is v1.train.MomentumOptimizer
        }

        def group_of(slice: str) -> str:
            return (_GROUP if slice in self._slices else "") + groups.group_of(slice)

        return dataclasses.replace(groups, optimizers={**groups.optimizers, **plain}, group_of=group_of)
