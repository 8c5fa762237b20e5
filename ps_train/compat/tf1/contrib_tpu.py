"""The names of `tf.contrib.tpu` for programs that can also train without TPUs: `TPUEstimator(use_tpu=False)`.

    config = RunConfig(model_dir="m", tpu_config=TPUConfig(iterations_per_loop=1000))
    estimator = TPUEstimator(model_fn, config=config, use_tpu=False, train_batch_size=32)

The settings of TPUs have no effect.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.calls import call_by_name
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.run_config import RunConfig as _RunConfig

__all__ = ["InputPipelineConfig", "RunConfig", "TPUConfig", "TPUEstimator", "TPUEstimatorSpec"]

_BATCH_SIZE, _USE_TPU = "batch_size", "use_tpu"


class InputPipelineConfig:
    """The ways in which the hosts of TPUs read data."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4


class TPUConfig(NamedTuple):
    """Settings of TPUs, which have no effect."""

    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None
    eval_training_input_configuration: Any = InputPipelineConfig.PER_HOST_V1


class RunConfig(_RunConfig):
    """A RunConfig of `tf.estimator` with settings of TPUs.

    Args:
      tpu_config: the settings; None: the default.
      evaluation_master: not used; the cluster is that of TF_CONFIG, as for the next two.
      master: not used.
      cluster: must be None.
      **kwargs: the arguments of `tf.estimator.RunConfig`.

    Raises:
      ValueError: a cluster is given, or another argument is wrong.
    """

    tpu_config: TPUConfig

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        if cluster is not None:
            raise ValueError(f"cluster={cluster!r} of RunConfig is not supported: TF_CONFIG describes the cluster")
        super().__init__(**kwargs)
        object.__setattr__(self, "tpu_config", tpu_config or TPUConfig())


class TPUEstimatorSpec(NamedTuple):
    """The values that the model_fn of a TPUEstimator returns.

    Args:
      mode, predictions, loss, train_op, export_outputs, training_hooks, evaluation_hooks, prediction_hooks: as of
        `tf.estimator.EstimatorSpec`.
      eval_metrics: a function that returns metrics by name, and its tensors as a list or dict.
      scaffold_fn: makes the scaffold.
      host_call: a function that returns an operation to run in each step, and its tensors as a list or dict.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metrics: Any = None
    export_outputs: Any = None
    scaffold_fn: Callable[[], Any] | None = None
    host_call: Any = None
    training_hooks: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None

    def as_estimator_spec(self) -> EstimatorSpec:
        """Returns the EstimatorSpec; metrics, scaffold and host_call are made in the current graph."""
        hooks = {name: getattr(self, f"{name}_hooks") for name in ("training", "evaluation", "prediction")}
        if self.host_call is not None:
            run = _RunHook(_call(self.host_call))
            hooks = {name: [*(given or ()), run] for name, given in hooks.items()}
        return EstimatorSpec(
            self.mode,
            self.predictions,
            self.loss,
            self.train_op,
            eval_metric_ops=None if self.eval_metrics is None else _call(self.eval_metrics),
            export_outputs=self.export_outputs,
            scaffold=None if self.scaffold_fn is None else self.scaffold_fn(),
            **{f"{name}_hooks": given for name, given in hooks.items()},
        )


def _call(function_and_tensors: Any) -> Any:
    function, tensors = function_and_tensors
    return function(**tensors) if isinstance(tensors, dict) else function(*tensors)


class _RunHook(v1.train.SessionRunHook):
    """Runs an operation in each step."""

    def __init__(self, fetches: Any) -> None:
        self._fetches = fetches

    def before_run(self, run_context: Any) -> Any:
        """Adds the operation to the call."""
        return v1.train.SessionRunArgs(self._fetches)


class TPUEstimator(Estimator):
    """An Estimator whose model_fn and input_fns find the batch size in `params["batch_size"]`.

    Args:
      model_fn: as of `tf.estimator.Estimator`; it may return a TPUEstimatorSpec.
      model_dir: as there.
      config: as there.
      params: as there; without `batch_size`.
      use_tpu: must be False.
      train_batch_size: examples of a batch in training.
      eval_batch_size: the same in evaluations.
      predict_batch_size: the same in predictions.
      batch_axis: not used, as all others that are not named here.
      warm_start_from: as of `tf.estimator.Estimator`.

    Raises:
      ValueError: use_tpu is True, or params have a batch size.
    """

    def __init__(
        self,
        model_fn: Any = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
        **others: Any,
    ) -> None:
        if use_tpu:
            raise ValueError("use_tpu=True of TPUEstimator: ps_train does not train on TPUs; use_tpu=False trains here")
        for name in (_BATCH_SIZE, _USE_TPU):
            if params is not None and name in params:
                raise ValueError(f"params of TPUEstimator have {name!r}: leave it out, as it is added to them")
        self._sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }

        def sized_model_fn(features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
            values = {"features": features, "labels": labels, "mode": mode, "config": config}
            spec = call_by_name(model_fn, {**values, "params": self._with_size(params, mode)})
            return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec

        super().__init__(sized_model_fn, model_dir, config, params, warm_start_from)

    def _with_size(self, params: Any, mode: str) -> Any:
        """Returns a copy of the params with the batch size of a mode."""
        more = {_USE_TPU: False} if self._sizes[mode] is None else {_USE_TPU: False, _BATCH_SIZE: self._sizes[mode]}
        if isinstance(params, dict):
            return {**params, **more}
        copied = copy.deepcopy(params)
        for name, value in more.items():
            copied.add_hparam(name, value)
        return copied

    def _bound(self, input_fn: Callable[..., Any], mode: str) -> Any:
        def sized_input_fn(mode: str, params: Any, config: Any) -> Any:
            return call_by_name(input_fn, {"mode": mode, "params": self._with_size(params, mode), "config": config})

        return super()._bound(sized_input_fn, mode)
