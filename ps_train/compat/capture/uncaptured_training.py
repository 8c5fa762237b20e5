"""Training with TensorFlow's own means: one session locally, `replica_device_setter` and a server in a cluster.

It is the engine for a model_fn that cannot be intercepted.  Variables travel one by one.  Training ends at exactly
`max_steps` with any number of workers (`step_claims.py`), and a ps ends with its workers (`unfused_cluster.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import private_tf
from ps_train.cluster.membership.step_budget import StepClaims
from ps_train.compat.capture.program import TRAIN, Program
from ps_train.compat.capture.sessions import (
    DefaultSaver,
    RestoringSessionCreator,
    WorkerSessionCreator,
    estimator_graph,
)
from ps_train.compat.capture.uncaptured_cluster import Place, join_cluster, local_place
from ps_train.data.input_result import features_and_labels
from ps_train.data.named_inputs import dense_inputs, remember_inputs
from ps_train.engine.checkpoint.run_checkpoints import newest_checkpoint
from ps_train.engine.step.label_values import LabelValuesHook
from ps_train.engine.variables.pairwise_shapes import check_shapes

log = logging.getLogger(__name__)

GRACE_SECS = 5
"""Seconds for which the end of a session waits for its queues; TensorFlow's default is 120.

The queue of a SyncReplicasOptimizer waits for gradients of other workers, which may have ended.
"""


class FinalStepHook(v1.train.SessionRunHook):
    """Reads the global step at the end of a session.

    Attributes:
      step: the global step; 0 until the end.
    """

    def __init__(self) -> None:
        self.step = 0
        self._global_step = v1.train.get_global_step()

    def end(self, session: v1.Session) -> None:
        """Reads the step."""
        self.step = int(session.run(self._global_step))


class AlignedSaverHook(v1.train.CheckpointSaverHook):
    """Saves at multiples of `save_steps`, as the other engine does; TensorFlow's counts from where training began.

    Args:
      directory: of the checkpoints.
      save_steps: steps between two saves; None for none.
      options: of TensorFlow's hook.
    """

    def __init__(self, directory: str, *, save_steps: int | None, **options: Any) -> None:
        self._every_steps, self._saved, self._counts_from = save_steps, -1, -1
        super().__init__(directory, save_steps=save_steps, **options)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Saves what is there."""
        super().after_create_session(session, coord)
        self._align()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves if it is time; several workers may have passed the multiple."""
        super().after_run(run_context, run_values)
        self._align()

    def end(self, session: v1.Session) -> None:
        """Saves the last step, unless it is saved."""
        if self._saved >= 0:
            private_tf.count_saves_from(self, self._saved)
        super().end(session)

    def _align(self) -> None:
        last = private_tf.last_save(self)
        if self._every_steps and last is not None and last != self._counts_from:
            self._saved, self._counts_from = last, last // self._every_steps * self._every_steps
            private_tf.count_saves_from(self, self._counts_from)


def train_unfused(run: Program) -> int:
    """Trains a model until its input ends, a hook stops it, or max_steps is reached.

    Returns:
      The global step at the end.

    Raises:
      ValueError: there are saving_listeners, and nothing saves.
    """
    config = run.config
    place = join_cluster(config) if config.cluster_spec.as_dict() else local_place(config)
    with estimator_graph(config, _device_function(config, place)):
        features, labels, input_hooks = features_and_labels(run.input_fn())
        inputs = dense_inputs(features, labels)
        remember_inputs(features, labels)
        spec = run.model_fn(features, labels, TRAIN)
        check_shapes("the loss", spec.loss, inputs)
        if run.warm_start is not None and not newest_checkpoint(run.model_dir):
            v1.train.warm_start(*run.warm_start)
        _add_loss(spec.loss)
        _add_saver(spec.scaffold, config)
        last = FinalStepHook()
        claims = _claims(run)
        hooks = [*input_hooks, *([claims] if claims else []), *_hooks(run, spec), last]
        with v1.train.MonitoredSession(_session_creator(run, spec, place), hooks, GRACE_SECS) as session:
            steps = 0
            while not session.should_stop():
                if claims is None:
                    session.run([spec.train_op, spec.loss])
                else:
                    session.run_step_fn(claims.step([spec.train_op, spec.loss]))
                steps += 1
        if not steps:
            log.warning("training made no step: the input is empty, or max_steps was reached before")
        return last.step


def _device_function(config: Any, place: Place) -> Any:
    if config.device_fn is not None or not place.num_ps:
        return config.device_fn
    return v1.train.replica_device_setter(ps_tasks=place.num_ps, worker_device=place.worker_device)


def _add_loss(loss: tf.Tensor) -> None:
    """Adds the loss to the summaries, unless the model_fn has done so."""
    if all(summary.op.name != "loss" for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)):
        v1.summary.scalar("loss", loss)
    v1.add_to_collection(v1.GraphKeys.LOSSES, loss)


def _add_saver(scaffold: v1.train.Scaffold, config: Any) -> None:
    """Adds the saver of the configuration, unless the model_fn has one."""
    if scaffold.saver is None and not v1.get_collection(v1.GraphKeys.SAVERS):
        saver = DefaultSaver(
            sharded=True,
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
            defer_build=True,
            save_relative_paths=True,
        )
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)


def _hooks(run: Program, spec: Any) -> list[v1.train.SessionRunHook]:
    """Returns the hooks of this task, in the order in which TensorFlow's Estimator runs them."""
    config, step = run.config, v1.train.get_global_step()
    own = list(run.hooks)
    if run.max_steps is not None:
        own.append(v1.train.StopAtStepHook(last_step=run.max_steps))
    own.append(v1.train.NanTensorHook(spec.loss))
    if config.log_step_count_steps:
        shown = {"loss": spec.loss, "step": step}
        own.append(v1.train.LoggingTensorHook(shown, every_n_iter=config.log_step_count_steps))
    own += spec.training_hooks
    saving = _saving_hooks(run, spec, [*own, *spec.training_chief_hooks])
    if not config.is_chief:
        return own
    writing: list[v1.train.SessionRunHook] = []
    if config.log_step_count_steps:
        writing.append(v1.train.StepCounterHook(config.log_step_count_steps, output_dir=run.model_dir))
    if config.save_summary_steps:
        writing.append(
            v1.train.SummarySaverHook(config.save_summary_steps, output_dir=run.model_dir, scaffold=spec.scaffold)
        )
    return [*saving, *spec.training_chief_hooks, *writing, LabelValuesHook(), *own]


def _saving_hooks(run: Program, spec: Any, given: Sequence[v1.train.SessionRunHook]) -> list[v1.train.SessionRunHook]:
    """Returns the hook that saves checkpoints, unless the user has given one or nothing is to be saved."""
    config, made = run.config, []
    savers = [hook for hook in given if isinstance(hook, v1.train.CheckpointSaverHook)]
    if not savers and (config.save_checkpoints_secs or config.save_checkpoints_steps):
        made = savers = [
            AlignedSaverHook(
                run.model_dir,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                scaffold=spec.scaffold,
                save_graph_def=config.checkpoint_save_graph_def,
            )
        ]
    if run.saving_listeners and not savers:
        raise ValueError(
            "saving_listeners need checkpoints, and none are saved: set save_checkpoints_steps or "
            "save_checkpoints_secs of RunConfig."
        )
    for listener in run.saving_listeners:
        private_tf.add_saving_listener(savers[0], listener)
    return list(made)


def _claims(run: Program) -> StepClaims | None:
    """Returns the claims on steps where several workers could make too many; None where they are not needed."""
    config = run.config
    is_shared = config.num_ps_replicas and config.num_worker_replicas > 1
    # A synchronous optimizer counts one step for several workers, which all make it.
    is_synchronous = any(v.op.name.endswith("sync_rep_local_step") for v in v1.local_variables())
    if run.max_steps is None or not is_shared or is_synchronous:
        return None
    return StepClaims(run.max_steps, config.is_chief)


def _session_creator(run: Program, spec: Any, place: Place) -> v1.train.SessionCreator:
    config = run.config
    if config.is_chief:
        return RestoringSessionCreator(spec.scaffold, place.master, place.session_config, run.model_dir)
    wait_secs = config.session_creation_timeout_secs or float("inf")
    return WorkerSessionCreator(spec.scaffold, place.master, place.session_config, wait_secs)
