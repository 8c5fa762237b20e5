"""Graphs and sessions of an Estimator's calls: each call has new ones.

Use:

    with estimator_graph(config):
        ...                                                     # input_fn, model_fn
        with v1.train.MonitoredSession(RestoringSessionCreator(...), hooks) as session:
            ...
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import cause_of
from ps_train.engine.checkpoint.run_checkpoints import newest_checkpoint

_KEPT_WAIT_SECS = 1.0
WORKER_WAIT_SECS = 0.5
"""Pause between two looks of a worker for the variables that the chief initializes."""


@contextlib.contextmanager
def estimator_graph(config: Any, device: str | Callable[[Any], str] | None = None) -> Iterator[tf.Graph]:
    """Enters a new graph that has the configuration's seed, and a global step as its first variable."""
    graph = tf.Graph()
    with graph.as_default(), graph.device(device):
        v1.set_random_seed(config.tf_random_seed)
        with v1.variable_scope(v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False):
            v1.train.create_global_step(graph)
        yield graph


def in_one_piece(getter: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
    """A custom getter of a variable scope: it makes resource variables without partitions."""
    return getter(name, *args, **{**options, "partitioner": None, "use_resource": True})


class DefaultSaver(v1.train.Saver):
    """A saver of all variables under their own names: one that the user has not made."""


class RestoringSessionCreator(v1.train.ChiefSessionCreator):
    """A session in which variables have a checkpoint's values, or their initial ones where there is none.

    A session that replaces a lost one keeps the variables, unless a ps has lost them too.

    Args:
      scaffold: of the EstimatorSpec.
      master: target of the session.
      config: a ConfigProto.
      checkpoint_dir: directory whose newest checkpoint is restored.
      checkpoint_path: the checkpoint to restore instead.
    """

    def __init__(
        self,
        scaffold: v1.train.Scaffold,
        master: str,
        config: v1.ConfigProto | None,
        checkpoint_dir: str | None = None,
        checkpoint_path: str | None = None,
    ) -> None:
        self._source = checkpoint_path or (newest_checkpoint(checkpoint_dir) if checkpoint_dir else None) or ""
        savers = [scaffold.saver] if scaffold.saver else v1.get_collection(v1.GraphKeys.SAVERS)
        self._scaffold, self._master, self._config, self._has_begun = scaffold, master, config, False
        self._restores_all = all(isinstance(saver, DefaultSaver) for saver in savers)
        super().__init__(scaffold, master, config, None, self._source or None)

    def create_session(self) -> v1.Session:
        """Returns the session.

        Raises:
          tf.errors.InvalidArgumentError: the checkpoint has a variable of another shape.
          tf.errors.NotFoundError: the checkpoint lacks a variable.
        """
        kept = self._kept_session() if self._has_begun and self._master else None
        if kept is not None:
            return kept
        self._has_begun = True
        if self._source and self._restores_all:  # restored resource variables take values of any shape
            for name, there, here in _other_shapes(self._source):
                text = self._misfit(f"{name} has the shape {there} there and {here} here")
                raise tf.errors.InvalidArgumentError(None, None, text)
        try:
            return super().create_session()
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
            if "Restoring from checkpoint failed" not in str(error):
                raise
            missing = _missing(self._source)
            reason = f"it has no {', '.join(missing)}" if missing else cause_of(error)
            raise type(error)(None, None, self._misfit(reason)) from error

    def _kept_session(self) -> v1.Session | None:
        """Returns a session with the variables as they are, or None if they are not all initialized."""
        creator = WorkerSessionCreator(self._scaffold, self._master, self._config, _KEPT_WAIT_SECS)
        try:
            return creator.create_session()
        except tf.errors.DeadlineExceededError:
            return None

    def _misfit(self, reason: str) -> str:
        folder, name = os.path.split(self._source)
        return (
            f"checkpoint {name} of model_dir={folder} does not fit the variables of the model_fn: {reason}; use "
            "another model_dir, or the model that wrote it."
        )


class WorkerSessionCreator(v1.train.SessionCreator):
    """A session of a worker, which waits until the chief has initialized the variables.

    TensorFlow's own class looks only every 30 seconds.

    Args:
      scaffold: of the EstimatorSpec.
      master: target of the worker's server.
      config: a ConfigProto.
      max_wait_secs: seconds to wait for the chief.
    """

    def __init__(
        self, scaffold: v1.train.Scaffold, master: str, config: v1.ConfigProto | None, max_wait_secs: float
    ) -> None:
        self._scaffold, self._master, self._config, self._max_wait_secs = scaffold, master, config, max_wait_secs

    def create_session(self) -> v1.Session:
        """Returns a session in which all variables are initialized."""
        self._scaffold.finalize()
        manager = v1.train.SessionManager(
            local_init_op=self._scaffold.local_init_op,
            ready_op=self._scaffold.ready_op,
            ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
            graph=v1.get_default_graph(),
            recovery_wait_secs=WORKER_WAIT_SECS,
        )
        return manager.wait_for_session(self._master, config=self._config, max_wait_secs=self._max_wait_secs)


def _other_shapes(checkpoint: str) -> list[tuple[str, list[int], list[int]]]:
    """Returns (name, shape in the checkpoint, shape here) of the variables whose shapes differ."""
    shapes = dict(tf.train.list_variables(checkpoint))
    here = {variable.op.name: variable.shape.as_list() for variable in v1.global_variables()}
    return [(name, shapes[name], shape) for name, shape in here.items() if shapes.get(name, shape) != shape]


def _missing(checkpoint: str) -> list[str]:
    """Returns the names of the variables that a checkpoint has not."""
    names = {name for name, _ in tf.train.list_variables(checkpoint)}
    return [variable.op.name for variable in v1.global_variables() if variable.op.name not in names]
