"""Training of a program that cannot be captured: it trains as a raw script does, by the names of `compat/train`.

Variables travel one by one.  Without a cluster it is one plain session.  The ps are those of the engine
(`training/tasks/ps.py`), since a ps does not know how the workers will train.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import private_tf
from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership.connect import connect_all_ps
from ps_train.cluster.membership.presence import AbsenceLimits
from ps_train.cluster.sessions.server import session_config, start_server
from ps_train.compat.capture.estimator_program import TRAIN, Program
from ps_train.compat.capture.job_of_config import cluster_job, task_of, trains_in_cluster
from ps_train.compat.capture.recorded_optimizers import replaced
from ps_train.compat.capture.sessions import DefaultSaver, EstimatorSessionCreator, estimator_graph
from ps_train.compat.train.device_setter import replica_device_setter
from ps_train.compat.train.monitored_session import TrainingSession
from ps_train.compat.train.named_tasks import named_tasks
from ps_train.compat.train.server import ScriptCluster, ScriptTask
from ps_train.compat.train.stop_at_step import StopAtStepHook
from ps_train.compat.train.sync_replicas import STOCK_METHODS, exact_of
from ps_train.data.input_result import features_and_labels
from ps_train.data.named_inputs import dense_inputs, remember_inputs
from ps_train.engine.run_directory.run_checkpoints import newest_checkpoint
from ps_train.engine.step.label_values import LabelValuesHook
from ps_train.engine.variables.pairwise_shapes import check_shapes

log = logging.getLogger(__name__)

GRACE_SECS = 5
"""Seconds for which the end of a session waits for its queues; TensorFlow's default is 120.

The queue of a SyncReplicasOptimizer waits for gradients of other workers, which may have ended.
"""


class AlignedSaverHook(v1.train.CheckpointSaverHook):
    """Saves at multiples of `save_steps`, as the engine does; TensorFlow's counts from where training began.

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


def train_as_script(run: Program) -> int:
    """Trains a model until its input ends, a hook stops it, or max_steps is reached.

    Returns:
      The global step at the end.

    Raises:
      ConfigError: the cluster has no ps, or TensorFlow cannot serve on the address.
      UnreachableError: a ps does not answer in time.
      RefusedError: a ps has another cluster.
      ValueError: there are saving_listeners, and nothing saves.
    """
    config = run.config
    task = _join_cluster(config) if trains_in_cluster(config) else None
    with estimator_graph(config, _device_function(config, task)):
        features, labels, input_hooks = features_and_labels(run.input_fn())
        inputs = dense_inputs(features, labels)
        remember_inputs(features, labels)
        with replaced([(v1.train.SyncReplicasOptimizer, name, _exactly(name)) for name in STOCK_METHODS]):
            spec = run.model_fn(features, labels, TRAIN)
        check_shapes("the loss", spec.loss, inputs)
        if run.warm_start is not None and not newest_checkpoint(run.model_dir):
            v1.train.warm_start(*run.warm_start)
        _add_loss(spec.loss)
        _add_saver(spec.scaffold, config)
        last, steps = v1.train.FinalOpsHook(v1.train.get_global_step()), 0
        with _session(run, spec, task, [*input_hooks, *_hooks(run, spec), last]) as session:
            while not session.should_stop():
                session.run([spec.train_op, spec.loss])
                steps += 1
        if not steps:
            log.warning("training made no step: the input is empty, or max_steps was reached before")
        return int(last.final_ops_values)


def _exactly(method: str) -> Callable[..., Any]:
    """Returns a method of TensorFlow's SyncReplicasOptimizer that calls the exact optimizer's."""

    def call(optimizer: Any, *arguments: Any, **options: Any) -> Any:
        exact = exact_of(optimizer)
        done = getattr(exact, method)(*arguments, **options)
        for name in ("local_step_init_op", "chief_init_op", "ready_for_local_init_op"):
            setattr(optimizer, name, getattr(exact, name))
        return done

    return call


_tasks: dict[str, ScriptTask] = {}
"""This process's task, by its cluster: TensorFlow cannot stop a server."""


def _join_cluster(config: Any) -> ScriptTask:
    """Connects to all ps, starts the server of a worker, and begins to give signs of life; once in a process."""
    job, task = cluster_job(config), task_of(config)
    if not job.ps_hosts:
        raise ConfigError('a cluster without ps is not possible with engine="tensorflow": use one with ps.')
    key = f"{task} of {config.cluster_spec.as_dict()}"
    if key not in _tasks:
        resolver = ClusterResolver(job)
        connect_all_ps(resolver, task, job.shared_fields(), job.startup_timeout_secs)
        server = start_server(resolver.cluster.address(task), job)
        hosts: dict[str, dict[int, str]] = {}
        for name, address in resolver.cluster.tasks().items():
            job_name, _, index = name.partition(":")
            hosts.setdefault(job_name, {})[int(index)] = str(address)
        cluster = ScriptCluster(hosts, task.job_name, task.task_index or 0)
        limits = AbsenceLimits(
            silent_secs=job.heartbeat_timeout_secs,
            startup_secs=job.startup_timeout_secs,
            finish_secs=job.finish_timeout_secs,
        )
        _tasks[key] = ScriptTask(server.target, cluster, limits)
    return _tasks[key]


def _device_function(config: Any, task: ScriptTask | None) -> Callable[..., str] | None:
    if config.device_fn is not None or task is None:
        return config.device_fn
    return replica_device_setter(ps_tasks=len(task.cluster.ps), worker_device=task.cluster.device)


def _session(
    run: Program, spec: Any, task: ScriptTask | None, hooks: Sequence[v1.train.SessionRunHook]
) -> TrainingSession:
    """Returns a session for training; the chief's has a checkpoint's values where there is one."""
    config, master, wait_secs = run.config, task.target if task else "", run.config.session_creation_timeout_secs
    creator = EstimatorSessionCreator(
        spec.scaffold, master, config.is_chief, _session_config(config, task), run.model_dir, wait_secs or float("inf")
    )
    own = _chief_hooks(run, spec, hooks) if config.is_chief else []
    return TrainingSession(creator, config.is_chief, [*own, *hooks], GRACE_SECS)


def _session_config(config: Any, task: ScriptTask | None) -> v1.ConfigProto | None:
    """Returns the settings of a session; in a cluster they describe it, since no server knows the others."""
    if task is None:
        return config.session_config
    settings = v1.ConfigProto()
    if config.session_config is not None:
        settings.CopyFrom(config.session_config)
        del settings.device_filters[:]  # the description below names only the tasks that a worker needs
    job = cluster_job(config)
    settings.MergeFrom(session_config(ClusterResolver(job).cluster, task_of(config), job))
    others = named_tasks(v1.get_default_graph(), task.cluster.device)
    task.wait_for(others)
    named = {job.name: job.tasks for job in settings.cluster_def.job}
    for name, address in [found for device in others for found in task.cluster.members(device)]:
        job_name, _, index = name.partition(":")
        tasks = named[job_name] if job_name in named else settings.cluster_def.job.add(name=job_name).tasks
        tasks[int(index)] = str(address)
    return settings


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
    """Returns the hooks of every task, in the order in which TensorFlow's Estimator runs them."""
    config, step = run.config, v1.train.get_global_step()
    own = list(run.hooks)
    if run.max_steps is not None:
        own.append(StopAtStepHook(last_step=run.max_steps))
    own.append(v1.train.NanTensorHook(spec.loss))
    if config.log_step_count_steps:
        shown = {"loss": spec.loss, "step": step}
        own.append(v1.train.LoggingTensorHook(shown, every_n_iter=config.log_step_count_steps))
    return [*own, *spec.training_hooks]


def _chief_hooks(run: Program, spec: Any, given: Sequence[v1.train.SessionRunHook]) -> list[v1.train.SessionRunHook]:
    """Returns the hooks that only the chief has: they save first, and write events.

    Raises:
      ValueError: there are saving_listeners, and nothing saves.
    """
    config = run.config
    saving = _saving_hooks(run, spec, [*given, *spec.training_chief_hooks])
    writing: list[v1.train.SessionRunHook] = []
    if config.log_step_count_steps:
        writing.append(v1.train.StepCounterHook(config.log_step_count_steps, output_dir=run.model_dir))
    if config.save_summary_steps:
        writing.append(
            v1.train.SummarySaverHook(config.save_summary_steps, output_dir=run.model_dir, scaffold=spec.scaffold)
        )
    return [*saving, *spec.training_chief_hooks, *writing, LabelValuesHook()]


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
