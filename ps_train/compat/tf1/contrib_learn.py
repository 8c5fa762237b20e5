"""The names of `tf.contrib.learn` that run an Estimator of `tf.estimator`: Experiment, learn_runner and RunConfig.

    def experiment_fn(run_config, hparams):
        return Experiment(Estimator(model_fn, config=run_config), train_input, eval_input, train_steps=1000)

    run(experiment_fn, run_config=run_config(model_dir="m"), hparams=None)

They train and evaluate by `tf.estimator.train_and_evaluate`, in which the environment variable `TF_CONFIG` decides the
role of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec import estimator_spec
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.exporter import LatestExporter
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.spec.train_spec import TrainSpec
from ps_train.compat.estimator.train_and_evaluate import train_and_evaluate

_JOB = ("train_and_evaluate", "continuous_train_and_eval", "local_run", "run_std_server", "train")
"""Schedules of the tasks of a job; in a cluster each is this task's part of one."""


class ModeKeys:
    """The modes of `tf.estimator.ModeKeys`, of which prediction is called INFER too."""

    TRAIN = estimator_spec.ModeKeys.TRAIN
    EVAL = estimator_spec.ModeKeys.EVAL
    PREDICT = INFER = estimator_spec.ModeKeys.PREDICT


def run_config(
    master: str | None = None,
    num_cores: int = 0,
    log_device_placement: bool = False,
    gpu_memory_fraction: float = 1.0,
    tf_random_seed: int | None = None,
    save_summary_steps: int = 100,
    save_checkpoints_secs: float | None = None,
    save_checkpoints_steps: int | None = None,
    keep_checkpoint_max: int = 5,
    keep_checkpoint_every_n_hours: float = 10000,
    log_step_count_steps: int = 100,
    protocol: str | None = None,
    evaluation_master: str = "",
    model_dir: Any = None,
    session_config: Any = None,
    session_creation_timeout_secs: float = 7200,
) -> RunConfig:
    """Returns the configuration of `tf.estimator` for the arguments of `tf.contrib.learn.RunConfig`.

    Args:
      master: not used; the cluster is that of TF_CONFIG.
      num_cores: threads of a session; 0: one for each core.
      log_device_placement: whether a session logs the device of each operation.
      gpu_memory_fraction: the part of a GPU's memory that a session takes.
      tf_random_seed: as of `tf.estimator.RunConfig`, like all others.
      save_summary_steps: as there.
      save_checkpoints_secs: as there.
      save_checkpoints_steps: as there.
      keep_checkpoint_max: as there.
      keep_checkpoint_every_n_hours: as there.
      log_step_count_steps: as there.
      protocol: as there.
      evaluation_master: not used.
      model_dir: as there.
      session_config: takes the place of num_cores, log_device_placement and gpu_memory_fraction.
      session_creation_timeout_secs: as there.
    """
    is_usual = (num_cores, log_device_placement, gpu_memory_fraction) == (0, False, 1.0)
    if session_config is None and not is_usual:
        session_config = v1.ConfigProto(
            allow_soft_placement=True,
            log_device_placement=log_device_placement,
            inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores,
            gpu_options=v1.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction),
        )
    saving: dict[str, Any] = {"secs": save_checkpoints_secs, "steps": save_checkpoints_steps}
    return RunConfig(
        model_dir=model_dir,
        tf_random_seed=tf_random_seed,
        save_summary_steps=save_summary_steps,
        session_config=session_config,
        keep_checkpoint_max=keep_checkpoint_max,
        keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
        log_step_count_steps=log_step_count_steps,
        protocol=protocol,
        session_creation_timeout_secs=session_creation_timeout_secs,
        **{f"save_checkpoints_{unit}": value for unit, value in saving.items() if value is not None},
    )


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: Any = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool = False,
) -> LatestExporter:
    """Returns the exporter that an Experiment runs after each evaluation; it exports to `export/Servo`.

    Args:
      serving_input_fn: returns a ServingInputReceiver of `tf.estimator.export`.
      default_output_alternative_key: not used; the outputs are those of the model_fn.
      assets_extra: path in the export to a file that is copied there.
      as_text: whether the export is text.
      exports_to_keep: the number of exports; None: all.
      strip_default_attrs: not used.
    """
    return LatestExporter("Servo", serving_input_fn, assets_extra, as_text, exports_to_keep)


class Experiment:
    """An Estimator with data, and the number of steps of its training and evaluation.

    Args:
      estimator: the Estimator of `tf.estimator`.
      train_input_fn: data of the training.
      eval_input_fn: data of the evaluation.
      eval_metrics: must be None; metrics are those of the model_fn.
      train_steps: the global step at which training ends; None: the end of the data.
      eval_steps: batches of an evaluation; None: all.
      train_monitors: hooks of the training.
      eval_hooks: hooks of an evaluation.
      local_eval_frequency: not used.
      eval_delay_secs: seconds before the first evaluation of an evaluator.
      continuous_eval_throttle_secs: least seconds between evaluations.
      min_eval_frequency: not used; evaluations are at checkpoints.
      delay_workers_by_global_step: not used; workers start at once.
      export_strategies: exporters, or one.
      train_steps_per_iteration: not used.
      checkpoint_and_export: not used.
      saving_listeners: called around every save of the training.
      check_interval_secs: not used.

    Raises:
      ValueError: eval_metrics is given.
    """

    def __init__(
        self,
        estimator: Any,
        train_input_fn: Callable[[], Any],
        eval_input_fn: Callable[[], Any],
        eval_metrics: Any = None,
        train_steps: int | None = None,
        eval_steps: int | None = 100,
        train_monitors: Sequence[Any] | None = None,
        eval_hooks: Sequence[Any] | None = None,
        local_eval_frequency: int | None = None,
        eval_delay_secs: float = 120,
        continuous_eval_throttle_secs: float = 60,
        min_eval_frequency: int | None = None,
        delay_workers_by_global_step: bool = False,
        export_strategies: Any = None,
        train_steps_per_iteration: int | None = None,
        checkpoint_and_export: bool = False,
        saving_listeners: Any = None,
        check_interval_secs: float = 5,
    ) -> None:
        if eval_metrics is not None:
            raise ValueError("eval_metrics of Experiment is not supported: return eval_metric_ops from the model_fn")
        self.estimator, self.train_steps, self.eval_steps = estimator, train_steps, eval_steps
        self._train_input, self._eval_input = train_input_fn, eval_input_fn
        self._train_hooks, self._eval_hooks = list(train_monitors or ()), list(eval_hooks or ())
        self._eval_delay, self._throttle = eval_delay_secs, continuous_eval_throttle_secs
        self._exporters, self._listeners = export_strategies, saving_listeners

    def extend_train_hooks(self, additional_hooks: Sequence[Any]) -> None:
        """Adds hooks to the training."""
        self._train_hooks.extend(additional_hooks)

    def train(self, delay_secs: float | None = None) -> Any:
        """Trains in this process; returns the Estimator."""
        return self.estimator.train(
            self._train_input,
            hooks=self._train_hooks,
            max_steps=self.train_steps,
            saving_listeners=self._listeners,
        )

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> dict[str, Any]:
        """Evaluates the newest checkpoint; returns the metrics."""
        return dict(self.estimator.evaluate(self._eval_input, self.eval_steps, self._eval_hooks, name=name))

    def train_and_evaluate(self) -> Any:
        """Trains and evaluates, or does this task's part; returns metrics and results of exports, None in a cluster."""
        training = TrainSpec(self._train_input, self.train_steps, self._train_hooks, self._listeners)
        evaluation = EvalSpec(
            self._eval_input,
            self.eval_steps,
            hooks=self._eval_hooks,
            exporters=self._exporters,
            start_delay_secs=self._eval_delay,
            throttle_secs=self._throttle,
        )
        return train_and_evaluate(self.estimator, training, evaluation)


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: str | None = None,
    schedule: str | None = None,
    run_config: Any = None,
    hparams: Any = None,
) -> Any:
    """Makes an experiment and runs it; returns what its schedule returns.

    Args:
      experiment_fn: makes the experiment, from the output_dir, or from run_config and hparams.
      output_dir: directory of the model.
      schedule: `train`, `evaluate`, `train_and_evaluate` or another one of contrib's; None: training and evaluation.
        In a cluster it is this task's part.
      run_config: the configuration, with a model_dir.
      hparams: any value, for the experiment_fn.

    Raises:
      TypeError: experiment_fn is not callable, or does not return an Experiment.
      ValueError: none or both of output_dir and run_config are given, or the schedule is unknown.
    """
    if not callable(experiment_fn):
        raise TypeError(f"experiment_fn={experiment_fn!r} of learn_runner.run is not a function: give one")
    if (output_dir is None) == (run_config is None):
        raise ValueError(
            f"output_dir={output_dir!r} and run_config={run_config!r} of learn_runner.run: give one of them"
        )
    known = (*_JOB, "evaluate")
    if schedule is not None and schedule not in known:
        raise ValueError(f"schedule={schedule!r} of learn_runner.run is unknown: use one of {', '.join(known)}")
    experiment = experiment_fn(output_dir) if run_config is None else experiment_fn(run_config, hparams)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"experiment_fn returned {type(experiment).__name__}: return a tf.contrib.learn.Experiment")
    config = experiment.estimator.config
    if schedule == "evaluate":
        return experiment.evaluate()
    if schedule == "train" and not config.cluster_spec:
        return experiment.train()
    return experiment.train_and_evaluate()
