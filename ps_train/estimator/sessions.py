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

from ps_train.errors import cause_of
from ps_train.estimator.run_config import RunConfig

WORKER_WAIT_SECS = 0.5
"""Pause between two looks of a worker for the variables that the chief initializes."""


@contextlib.contextmanager
def estimator_graph(config: RunConfig, device: str | Callable[[Any], str] | None = None) -> Iterator[tf.Graph]:
    """Enters a new graph that has the configuration's seed, and a global step as its first variable."""
    graph = tf.Graph()
    with graph.as_default(), graph.device(device):
        v1.set_random_seed(config.tf_random_seed)
        with v1.variable_scope(v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False):
            v1.train.create_global_step(graph)
        yield graph


class RestoringSessionCreator(v1.train.ChiefSessionCreator):
    """A session in which variables have a checkpoint's values, or their initial ones where there is none.

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
        self._source = checkpoint_path or tf.train.latest_checkpoint(checkpoint_dir or "") or ""
        super().__init__(scaffold, master, config, None if checkpoint_path else checkpoint_dir, checkpoint_path)

    def create_session(self) -> v1.Session:
        """Returns the session; an error of the restoration names the checkpoint and its directory."""
        try:
            return super().create_session()
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
            if "Restoring from checkpoint failed" not in str(error):
                raise
            text = (
                f"checkpoint {os.path.basename(self._source)} of model_dir={os.path.dirname(self._source)} does not "
                f"fit the model_fn's variables: {_first_difference(self._source) or cause_of(error)}; use another "
                "model_dir, or the model that wrote it."
            )
            raise type(error)(None, None, text) from error


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


def _first_difference(checkpoint: str) -> str:
    """Returns the first variable of the default graph that a checkpoint has not, or has with another shape; or ""."""
    shapes = dict(tf.train.list_variables(checkpoint))
    for variable in v1.global_variables():
        name, shape = variable.op.name, variable.shape.as_list()
        if name not in shapes:
            return f"it has no {name}"
        if list(shapes[name]) != shape:
            return f"{name} has the shape {shapes[name]} there and {shape} here"
    return ""
