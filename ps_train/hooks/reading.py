"""What the hooks read of a step: always after its update, in the run that made it.

Not a hook itself.  A replica whose input has ended has no loss of its own any more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf


@dataclasses.dataclass
class Reading:
    """The tensors that hooks may fetch now."""

    loss: tf.Tensor
    step: tf.Tensor
    others: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    input_ended: bool = False

    def args(self) -> tf.compat.v1.train.SessionRunArgs:
        """For a hook's `before_run`; its `after_run` finds a dict of the same names in `run_values.results`."""
        fetches: dict[str, Any] = {"step": self.step}
        if not self.input_ended:
            fetches["loss"] = self.loss
        fetches |= self.others
        return tf.compat.v1.train.SessionRunArgs(fetches)
