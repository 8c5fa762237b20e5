"""Tells which part of the data the last step of a burst has used, where shards are handed out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


class ShardProgressHook(v1.train.SessionRunHook):
    """Args: `ticket` of the step (see `sharding/batches.py`); `tell` is given its value."""

    def __init__(self, ticket: tf.Tensor, tell: Callable[[Sequence[int]], None]) -> None:
        self._progress, self._tell = ticket, tell

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        return v1.train.SessionRunArgs(self._progress)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._tell(run_values.results)
