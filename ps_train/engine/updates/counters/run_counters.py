"""The counters of a whole run, in variables on ps 0; checkpoints keep some of them."""

from __future__ import annotations

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class RunCounters:
    """Counters of the whole run, in variables on ps 0.

    Attributes:
      examples: float64 scalar, the examples that all updates stand for.
      skipped: int64 scalar, gradients that were left out because they were not finite.
      dropped: int64 scalar, gradients that were left out because they were too old.
      staleness: int64 [replicas, staleness.BINS], updates by replica and staleness.
      waiting: float64 [replicas, 2], seconds that steps waited for other replicas, and total seconds of steps.
    """

    examples: tf.Variable
    skipped: tf.Variable
    dropped: tf.Variable
    staleness: tf.Variable
    waiting: tf.Variable
