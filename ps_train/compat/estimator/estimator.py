"""An Estimator: a model, as a function, that is trained, evaluated, used and exported from one directory.

    estimator = Estimator(model_fn, "/models/run1", RunConfig(save_checkpoints_steps=1000), params={"units": 64})
    estimator.train(train_input, max_steps=10_000)
    estimator.evaluate(test_input)                      # {"loss": 0.1, "global_step": 10000, ...}

Every call makes a new graph and reads the variables from the newest checkpoint.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.io import gfile

from ps_train.compat.capture.estimator_program import Program
from ps_train.compat.estimator import engines
from ps_train.compat.estimator.evaluation import StopAfterBatchesHook, evaluate, write_events
from ps_train.compat.estimator.export_saved_model import ExportOptions, export_saved_model
from ps_train.compat.estimator.prediction import examples_of, predict
from ps_train.compat.estimator.sliced_evaluation import eval_field, evaluate_slices
from ps_train.compat.estimator.spec.calls import bind_input_fn, bind_model_fn, check_model_fn
from ps_train.compat.estimator.spec.estimator_spec import (
    EstimatorSpec,
    ModeKeys,
    check_count,
    check_steps,
    checked_hooks,
    checked_listeners,
)
from ps_train.compat.estimator.spec.run_config import RunConfig, complete_config
from ps_train.compat.estimator.spec.warm_start import WarmStartSettings, warm_start_settings
from ps_train.engine.checkpoint.files import needed_checkpoint, saved_step
from ps_train.engine.run_directory.run_checkpoints import newest_checkpoint

log = logging.getLogger(__name__)

_Hooks = Iterable[v1.train.SessionRunHook] | None


class Estimator:
    """A model with its directory and configuration.

    Args:
      model_fn: function of features, and of those of labels, mode, params and config that it names; returns an
        EstimatorSpec.
      model_dir: directory of checkpoints and events; None: that of the config, or a temporary one.
      config: RunConfig; None: the default.
      params: given to model_fn and input_fns; copied.
      warm_start_from: path of a checkpoint, of its directory or of a SavedModel, or WarmStartSettings: initial values
        for a model_dir without checkpoint.

    Raises:
      ValueError: an argument is wrong, or two of them contradict each other.
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
    ) -> None:
        self._config = complete_config(RunConfig() if config is None else config, model_dir)
        check_model_fn(model_fn, params)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._warm_start = warm_start_settings(warm_start_from)

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and events."""
        return str(self._config.model_dir)

    @property
    def config(self) -> RunConfig:
        """A copy of the configuration."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the parameters."""
        return copy.deepcopy(self._params)

    @property
    def warm_start_settings(self) -> WarmStartSettings | None:
        """The source of initial values, if there is one."""
        return self._warm_start

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model_fn with its params, as `f(features, labels, mode, config)`."""

        def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
            return bind_model_fn(self._model_fn, self._params, config)(features, labels, mode)

        return model_fn

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: _Hooks = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[v1.train.CheckpointSaverListener] | None = None,
    ) -> Estimator:
        """Trains from the newest checkpoint on, and returns the Estimator.

        Args:
          input_fn: function of those of mode, params and config that it names; returns a Dataset of batches or the
            tensors of one, (features, labels) or features alone.
          hooks: run by every training task.
          steps: number of further steps; None: to the end of the input.
          max_steps: the global step at which training ends, instead of `steps`.
          saving_listeners: called around every save.

        Raises:
          ValueError: both or a wrong number of steps are given, or this process is a ps or an evaluator.
          TypeError: a hook or listener has the wrong type.
        """
        check_steps(self._config, steps, max_steps)
        start = saved_step(self.model_dir)
        if max_steps is not None and max_steps <= start:
            log.info("Skipping training: global step %d is not below max_steps=%d", start, max_steps)
            engines.skip(self._config)
            return self
        last_step = max_steps if steps is None else start + steps
        step = engines.train(self._program(input_fn, last_step, hooks, saving_listeners))
        if step > start or self._config.is_chief:
            log.info("training ended at global step %d", step)
        else:  # the checkpoints are in the chief's model_dir, and this task's is another one
            log.info("training ended; the chief tells the global step")
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: _Hooks = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the newest checkpoint, or initial values where there is none.

        Args:
          input_fn: as in `train`.
          steps: number of batches; None: all.
          hooks: run in the evaluation.
          checkpoint_path: the checkpoint to evaluate instead.
          name: of the evaluation, for a directory of its own.

        Returns:
          The metrics by name, with "loss" (mean of the batches) and "global_step".  They are also written as events
          into `eval_dir(name)`.  With `job={"eval_by": FIELD}` of the RunConfig, also those of parts of the data, named
          as "auc/FIELD=VALUE".

        Raises:
          ValueError: steps is not positive, or a metric has a reserved name.
          ConfigError: the data cannot be divided by the field.
        """
        check_count(steps, "steps", "to evaluate to the end of the input")
        found = checked_hooks(hooks, "hooks")
        if steps is not None:
            found = (*found, StopAfterBatchesHook(steps))
        checkpoint = self._checkpoint(checkpoint_path, "evaluation")
        given = (*self._bound(input_fn, ModeKeys.EVAL), self._config, checkpoint)
        results = evaluate(*given, found, self._warm_start)
        if field := eval_field(self._config):
            results |= evaluate_slices(*given, self._warm_start, steps, field)
        write_events(self.eval_dir(name), results, checkpoint, field)
        return results

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Collection[str] | None = None,
        hooks: _Hooks = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yields predictions of the newest checkpoint, or of initial values where there is none.

        Args:
          input_fn: as in `train`; labels are ignored.
          predict_keys: names of the predictions to yield; None: all.
          hooks: run in the prediction.
          checkpoint_path: the checkpoint to use instead.
          yield_single_examples: True: one result for each example; False: one for each batch.

        Raises:
          ValueError: none of predict_keys is a prediction, or the predictions differ in their numbers of examples.
        """
        found, checkpoint = checked_hooks(hooks, "hooks"), self._checkpoint(checkpoint_path, "prediction")
        functions = self._bound(input_fn, ModeKeys.PREDICT)
        batches = predict(*functions, self._config, checkpoint, found, self._warm_start, predict_keys)
        return (example for batch in batches for example in examples_of(batch)) if yield_single_examples else batches

    def export_saved_model(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Writes the newest checkpoint as a SavedModel that serves.

        Args:
          export_dir_base: directory of all exports.
          serving_input_receiver_fn: returns a ServingInputReceiver or TensorServingInputReceiver.
          assets_extra: path below `assets.extra` of the export, to the file that is copied there.
          as_text: True to write the graph as text.
          checkpoint_path: the checkpoint to export instead.
          experimental_mode: only ModeKeys.PREDICT.

        Returns:
          The path of the export, `<export_dir_base>/<seconds of the time>`, as bytes.

        Raises:
          ValueError: there is no checkpoint, or no function for the inputs.
        """
        if experimental_mode != ModeKeys.PREDICT:
            raise ValueError(f"experimental_mode={experimental_mode!r} cannot be exported: leave it out.")
        options = ExportOptions(assets_extra or {}, as_text, True)
        return self._export(export_dir_base, serving_input_receiver_fn, checkpoint_path, options)

    def export_savedmodel(
        self,
        export_dir_base: str | os.PathLike[str],
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """The old name of `export_saved_model`, which keeps attributes with their defaults unless told otherwise."""
        options = ExportOptions(assets_extra or {}, as_text, strip_default_attrs)
        return self._export(export_dir_base, serving_input_receiver_fn, checkpoint_path, options)

    def experimental_export_all_saved_models(self, *args: Any, **named: Any) -> bytes:
        """Raises ValueError: the graphs of training and of evaluation are not exported."""
        raise ValueError(
            "experimental_export_all_saved_models writes graphs of training and evaluation, which cannot be exported: "
            "use export_saved_model."
        )

    def get_variable_names(self) -> list[str]:
        """Returns the names of the variables in the newest checkpoint; raises ValueError if there is none."""
        return [name for name, _ in tf.train.list_variables(self._needed_checkpoint())]

    def get_variable_value(self, name: str) -> np.ndarray:
        """Returns a variable's value in the newest checkpoint; raises ValueError if there is no checkpoint."""
        return tf.train.load_variable(self._needed_checkpoint(), name)

    def latest_checkpoint(self) -> str | None:
        """Returns the path of the newest checkpoint, or None."""
        return newest_checkpoint(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Returns the directory of an evaluation's events."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    def _program(self, input_fn: Callable[..., Any], last_step: int | None, hooks: _Hooks, listeners: Any) -> Program:
        model_fn, bound_input_fn = self._bound(input_fn, ModeKeys.TRAIN)
        return Program(
            model_fn=model_fn,
            input_fn=bound_input_fn,
            config=self._config,
            model_dir=self.model_dir,
            max_steps=last_step,
            hooks=checked_hooks(hooks, "hooks"),
            saving_listeners=checked_listeners(listeners, "saving_listeners"),
            warm_start=self._warm_start,
        )

    def _bound(self, input_fn: Callable[..., Any], mode: str) -> tuple[Callable[..., Any], Callable[[], Any]]:
        """Returns model_fn and input_fn with the params and the configuration."""
        model_fn = bind_model_fn(self._model_fn, self._params, self._config)
        return model_fn, bind_input_fn(input_fn, mode, self._params, self._config)

    def _checkpoint(self, given: str | None, purpose: str) -> str | None:
        checkpoint = given or self.latest_checkpoint()
        if not checkpoint:
            log.info("model_dir %s has no checkpoint: %s of initial values", self.model_dir, purpose)
        return checkpoint

    def _needed_checkpoint(self) -> str:
        return needed_checkpoint(self.model_dir)

    def _export(self, base: Any, receiver_fn: Any, given: str | None, options: ExportOptions) -> bytes:
        if not receiver_fn:
            raise ValueError("serving_input_receiver_fn is missing: give a function that returns a receiver.")
        checkpoint = given or self.latest_checkpoint()
        if not checkpoint and self._warm_start is not None:
            source = self._warm_start.ckpt_to_initialize_from
            checkpoint = newest_checkpoint(source) if gfile.isdir(source) else source
        model_fn = bind_model_fn(self._model_fn, self._params, self._config)
        return export_saved_model(
            model_fn, receiver_fn, self._config, checkpoint or self._needed_checkpoint(), base, options
        )
