"""The hooks of every worker: those of the user's model, and the one that dynamic sharding needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.errors import ModelError
from ps_train.errors.user_calls import shown, user_code
from ps_train.hooks.shard_progress_hook import ShardProgressHook
from ps_train.model import Model


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
    return [*map(_UsersHook, own), *shards]


class _UsersHook(v1.train.SessionRunHook):
    """A hook of the user's whose exceptions are told with their place; TensorFlow's pass, as a ps may be lost."""

    def __init__(self, hook: v1.train.SessionRunHook) -> None:
        self._hook = hook

    def _call(self, method: str, *arguments: Any) -> Any:
        lost: tf.errors.OpError | None = None
        with user_code(f"{type(self._hook).__name__}.{method}()"):
            try:
                return getattr(self._hook, method)(*arguments)
            except tf.errors.OpError as error:
                lost = error
        raise lost

    def begin(self) -> None:
        self._call("begin")

    def after_create_session(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        self._call("after_create_session", session, coord)

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs | None:
        return self._call("before_run", run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._call("after_run", run_context, run_values)
        if getattr(run_context, "stop_requested", False):
            raise ModelError(
                f"{type(self._hook).__name__}.after_run() called request_stop(), but a hook of a worker cannot end the "
                "job: use --max_steps or --epochs."
            )

    def end(self, session: v1.Session) -> None:
        self._call("end", session)
