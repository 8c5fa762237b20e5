"""The hooks of every worker: those of the user's model, and the one that dynamic sharding needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.errors import ModelError
from ps_train.hooks.shard_progress_hook import ShardProgressHook
from ps_train.model import Model
from ps_train.user_code import shown, user_code


def worker_hooks(
    model: Model, progress: tf.Tensor | None, report: Callable[[Sequence[int]], None] | None
) -> list[v1.train.SessionRunHook]:
    """Returns the hooks of a worker, in the training graph.

    Args:
      model: the user's model.
      progress: the progress of the step's batch under dynamic sharding, else None.
      report: takes the value of `progress`.

    Raises:
      ModelError: hooks() raised an exception, or returned anything but hooks.
    """
    with user_code("hooks()"):
        own = model.hooks()
    if not isinstance(own, list | tuple) or not all(isinstance(hook, v1.train.SessionRunHook) for hook in own):
        raise ModelError(f"hooks() returned {shown(own)}: return a list of tf.compat.v1.train.SessionRunHook objects.")
    shards: list[Any] = [ShardProgressHook(progress, report)] if progress is not None and report is not None else []
    return [*own, *shards]
