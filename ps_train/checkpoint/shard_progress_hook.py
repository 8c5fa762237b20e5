"""Reports the part of the data that the last step of a burst has used, under dynamic sharding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


class ShardProgressHook(v1.train.SessionRunHook):
    """A hook that reports the progress of the batches.

    Args:
      progress: int64 [3], the progress of the step's batch; see `data/shard_batches.py`.
      report: takes the fetched value.
    """

    def __init__(self, progress: tf.Tensor, report: Callable[[Sequence[int]], None]) -> None:
        self._progress, self._report = progress, report

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetch of the hook: the progress."""
        return v1.train.SessionRunArgs(self._progress)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Reports the fetched progress."""
        self._report(run_values.results)
