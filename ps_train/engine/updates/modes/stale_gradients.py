"""Rules for stale gradients: those whose values were pulled some updates ago.

    rules = stale_gradient_rules(job)
    Asynchronous(rules=rules)

An update mode asks every rule, and knows none of them.  A new rule is one class here and its flag.
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.config.job import Job


class StaleGradientRule:
    """A rule for stale gradients.  Its methods add operations on the ps; those of this class change nothing."""

    def used_if(self, staleness: tf.Tensor) -> list[tf.Tensor]:
        """Returns bool scalars; a gradient of this staleness is used where all of them are true."""
        return []

    def rate_divisors(self, staleness: tf.Tensor) -> list[tf.Tensor]:
        """Returns float32 scalars that divide the learning rate."""
        return []


class MaxStaleness(StaleGradientRule):
    """Leaves out older gradients.

    Args:
      most: the largest staleness of a gradient that is used.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def used_if(self, staleness: tf.Tensor) -> list[tf.Tensor]:
        """Returns whether the gradient is not older."""
        return [staleness <= self._most]


class DividedRate(StaleGradientRule):
    """Divides the learning rate by the staleness, where that is above 1.

    Zhang et al. 2016, "Staleness-aware Async-SGD for Distributed Deep Learning".
    """

    def rate_divisors(self, staleness: tf.Tensor) -> list[tf.Tensor]:
        """Returns the staleness."""
        return [tf.cast(tf.maximum(staleness, 1), tf.float32)]


def stale_gradient_rules(job: Job) -> list[StaleGradientRule]:
    """Returns the rules that the job asks for."""
    rules: list[StaleGradientRule] = []
    if job.divide_lr_by_staleness:
        rules.append(DividedRate())
    if job.max_staleness is not None:
        rules.append(MaxStaleness(job.max_staleness))
    return rules
