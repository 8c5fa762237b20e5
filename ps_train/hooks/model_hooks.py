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


class UsersHook(v1.train.SessionRunHook):
    """A hook of the user's, which outlives sessions that are lost.

    Its exceptions are told with their place; TensorFlow's pass, as a ps may be lost.

    Args:
      hook: the hook.
      stop: called when the hook requests a stop.
    """

    def __init__(self, hook: v1.train.SessionRunHook, stop: Callable[[str], None]) -> None:
        self._hook, self._stop = hook, stop
        self.name = type(hook).__name__
        self._call("begin")  # once, while operations may still be added to the graph

    def _call(self, method: str, *arguments: Any) -> Any:
        lost: tf.errors.OpError | None = None
        with user_code(f"{self.name}.{method}()"):
            try:
                return getattr(self._hook, method)(*arguments)
            except tf.errors.OpError as error:
                lost = error
        raise lost

    def after_create_session(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        """Passes the call on."""
        self._call("after_create_session", session, coord)

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs | None:
        """Passes the call on."""
        return self._call("before_run", run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Passes the call on, with a context of its own: the session must not stop, the job shall."""
        own = v1.train.SessionRunContext(run_context.original_args, run_context.session)
        self._call("after_run", own, run_values)
        if own.stop_requested:
            self._stop(self.name)

    def end(self, session: v1.Session) -> None:
        """Passes the call on."""
        self._call("end", session)


def model_hooks(model: Model, stop: Callable[[str], None]) -> list[UsersHook]:
    """Returns the hooks of the model for this worker, in the training graph, which is not finalized yet.

    Args:
      model: the user's model.
      stop: called with the name of a hook that requests a stop.

    Raises:
      ModelError: hooks() raised an exception, or returned anything but hooks.
    """
    with user_code("hooks()"):
        own = model.hooks()
    if not isinstance(own, list | tuple) or not all(isinstance(hook, v1.train.SessionRunHook) for hook in own):
        raise ModelError(f"hooks() returned {shown(own)}: return a list of tf.compat.v1.train.SessionRunHook objects.")
    return [UsersHook(hook, stop) for hook in own]


def shard_hooks(
    progress: tf.Tensor | None, report: Callable[[Sequence[int]], None] | None
) -> list[v1.train.SessionRunHook]:
    """Returns the hook that dynamic sharding needs, in a list that is empty without it.

    Args:
      progress: the progress of the step's batch under dynamic sharding, else None.
      report: takes the value of `progress`.
    """
    return [ShardProgressHook(progress, report)] if progress is not None and report is not None else []
