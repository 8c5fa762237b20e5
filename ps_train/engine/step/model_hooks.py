"""The hooks of every worker: those of the user's model, and the one that dynamic sharding needs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, ModelError
from ps_train.base.user_code import shown, user_code
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS
from ps_train.modeling.model import Model


class ShardProgressHook(v1.train.SessionRunHook):
    """A hook that reports the progress of the batches.

    Args:
      progress: int64 [3], the progress of the step's batch; see `data/shards/shard_batches.py`.
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


_ENDS = (StopIteration, tf.errors.OutOfRangeError)


class ModelHooks:
    """The hooks of the model for this worker, in the training graph, which is not finalized yet.

    Args:
      model: the user's model.
      on_end: called with the name of the hook, once, when one requests the end of the training.
      may_feed: whether a hook may feed values: they reach the step alone to which the hooks belong.

    Attributes:
      hooks: the hooks; empty for most models.
      have_ended: True once a hook has requested the end.
      run_alone: True if every step must run with them.

    Raises:
      ModelError: hooks() raised an exception, or returned anything but hooks.
    """

    def __init__(self, model: Model, on_end: Callable[[str], None], may_feed: bool = True) -> None:
        with user_code("hooks()"):
            own = model.hooks()
        if not isinstance(own, list | tuple) or not all(isinstance(hook, v1.train.SessionRunHook) for hook in own):
            raise ModelError(
                f"hooks() returned {shown(own)}: return a list of tf.compat.v1.train.SessionRunHook objects."
            )
        self._on_end, self.have_ended, self._is_closed = on_end, False, False
        self._closing = threading.Lock()
        self.hooks = [_UsersHook(hook, self.end_training, may_feed) for hook in own]
        self.run_alone = bool(self.hooks) and model.hooks_every_step

    def end_training(self, name: str) -> None:
        """Ends the training at the request of a hook or listener of this name."""
        if not self.have_ended:
            self.have_ended = True
            self._on_end(name)

    def close(self, session: v1.Session | None) -> None:
        """Tells the hooks the end of the training, once; a ps that is gone then is no error.

        Another thread that calls it returns when the hooks have been told.
        """
        with self._closing:
            if session is None or self._is_closed:
                return
            self._is_closed = True
            for hook in self.hooks:
                with contextlib.suppress(*PS_LOST_ERRORS):
                    hook.end(session)


class _UsersHook(v1.train.SessionRunHook):
    """A hook of the user's, which outlives sessions that are lost.

    Its exceptions are told with their place; TensorFlow's pass, as a ps may be lost.  A StopIteration or
    OutOfRangeError ends the training, as in a MonitoredSession.

    Args:
      stop: called when the hook requests a stop.
      may_feed: whether it may feed values.
    """

    def __init__(self, hook: v1.train.SessionRunHook, stop: Callable[[str], None], may_feed: bool) -> None:
        self._hook, self._stop, self._may_feed = hook, stop, may_feed
        self.name = type(hook).__name__
        self._call("begin")  # once, while operations may still be added to the graph

    def _call(self, method: str, *arguments: Any) -> Any:
        passed: tf.errors.OpError | StopIteration | None = None
        with user_code(f"{self.name}.{method}()"):
            try:
                return getattr(self._hook, method)(*arguments)
            except (tf.errors.OpError, StopIteration) as error:
                passed = error
        raise passed

    def after_create_session(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        """Passes the call on."""
        self._call("after_create_session", session, coord)

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs | None:
        """Passes the call on; an end of an input of the hook's own ends the training before the step."""
        try:
            asked = self._call("before_run", run_context)
        except _ENDS:
            self._stop(self.name)
            raise StopIteration from None
        if getattr(asked, "feed_dict", None) and not self._may_feed:
            raise ConfigError(
                f"the hook {self.name} feeds values, which with local_steps would reach the last step of a round "
                "alone: leave local_steps out, or keep the value in a variable."
            )
        return asked

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Passes the call on, with a context of its own: the session must not stop, the job shall."""
        own = v1.train.SessionRunContext(run_context.original_args, run_context.session)
        try:
            self._call("after_run", own, run_values)
        except _ENDS:
            own.request_stop()
        if own.stop_requested:
            self._stop(self.name)

    def end(self, session: v1.Session) -> None:
        """Passes the call on."""
        self._call("end", session)
