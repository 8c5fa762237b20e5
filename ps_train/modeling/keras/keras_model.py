"""A compiled Keras model with data, for jobs by flags.

    def model(units: int = 64):                             # --model=module:model
        network = keras.Sequential([...])
        network.compile(optimizer="adam", loss="mse", metrics=["mae"])
        return network

    def data(split, data_dir):
        return ps_train.Arrays(x[split], y[split])

The function may return `KerasModel(network, data)` too, or the job may name a subclass of `KerasModel` with the methods
`keras_model` and `data`.

Each process traces the model for itself, at the first batch: nothing of it is in the graphs of the engine but traces.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.user_code import shown, user_code
from ps_train.config.job import Job
from ps_train.modeling.keras.eager_thread import eagerly
from ps_train.modeling.keras.names import keyed_variables
from ps_train.modeling.keras.placed_step import PlacedStep
from ps_train.modeling.keras.traced_scoring import trace_prediction, trace_scoring
from ps_train.modeling.keras.traced_step import TracedStep, trace_step
from ps_train.modeling.keras.update_rules import refused_flags, why_not_local
from ps_train.modeling.keras.weight_files import check_weight_file, is_weight_file, values_in
from ps_train.modeling.model import Model

Data = Callable[[str, str], Any]
"""As `ps_train.Model.data`."""

_Traced = TypeVar("_Traced")

_OF_COMPILE = "the model's compile() gives it"


class KerasModel(Model):
    """A compiled Keras model.

    Args:
      model: the model; None in a subclass with a method `keras_model`.
      data: a function as `ps_train.Model.data`; None in a subclass with a method `data`.
    """

    gives_advice = False
    _given_model: Any = None
    _given_data: Data | None = None
    _training: _Training | None = None
    _by_rows = True

    def __init__(self, model: Any = None, data: Data | None = None) -> None:
        self._given_model, self._given_data = model, data

    def keras_model(self) -> Any:
        """Returns the compiled keras.Model; it is called once."""
        return self._given_model

    def data(self, split: str, data_dir: str) -> Any:
        """Returns all examples of a split; see `ps_train.Model.data`."""
        assert self._given_data is not None  # `network` has checked it
        return self._given_data(split, data_dir)

    @functools.cached_property
    def network(self) -> Any:
        """The compiled model.

        Raises:
          ModelError: it is not one, or there are no data.
        """
        import keras  # late: a job without Keras does not import it

        kind = type(self).__name__
        with user_code("keras_model()"):
            found = self.keras_model()
        if not isinstance(found, keras.Model):
            raise ModelError(f"{kind}.keras_model() returned {shown(found)}: return a compiled keras.Model.")
        if not found.compiled:
            raise ModelError(f"model {found.name} of {kind} is not compiled: call its compile() before.")
        if self._given_data is None and type(self).data is KerasModel.data:
            raise ModelError(
                f"model {found.name} of {kind} has no data: define data(split, data_dir) beside the function that "
                "makes it, or give KerasModel(model, data)."
            )
        if self._given_data is not None and not callable(self._given_data):
            raise ModelError(f"data of {kind} is {shown(self._given_data)}: give a function data(split, data_dir).")
        return found

    @functools.cached_property
    def default_learning_rate(self) -> float:  # type: ignore[override]
        """The rate of the model's optimizer; 1.0 for a schedule, as a factor of it."""
        optimizer = self.network.optimizer
        return 1.0 if self._has_schedule else eagerly(lambda: float(optimizer.learning_rate))

    @functools.cached_property
    def refused_flags(self) -> Mapping[str, str]:  # type: ignore[override]
        """The flags that are not possible with a Keras model."""
        scheduled = {"learning_rate": "its optimizer has a schedule; change that"} if self._has_schedule else {}
        return {
            **scheduled,
            **refused_flags(why_not_local(self._optimizer)),
            "optimizer": _OF_COMPILE,
            "optimizer_arg": _OF_COMPILE,
            "compute_dtype": "its layers have a dtype; use keras.mixed_precision.set_global_policy()",
            "accumulate": "give the optimizer gradient_accumulation_steps",
            "towers": "its step is traced for one device; use more workers",
        }

    @property
    def _optimizer(self) -> Any:
        """The model's optimizer, within a LossScaleOptimizer if it has one."""
        return getattr(self.network.optimizer, "inner_optimizer", self.network.optimizer)

    @property
    def _has_schedule(self) -> bool:
        import keras

        return not isinstance(self._optimizer.learning_rate, keras.Variable)  # a schedule gives a tensor

    @functools.cached_property
    def may_skip(self) -> bool:  # type: ignore[override]
        """True with a LossScaleOptimizer, which leaves out gradients that are not finite."""
        return hasattr(self.network.optimizer, "inner_optimizer")

    def forward(self, features: Any, training: bool) -> Any:
        """Returns the features: a Keras model computes outputs and loss in one function."""
        return features

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss of the traced `train_step`."""
        batch = outputs, labels
        if self._training is None:
            self._training = eagerly(lambda: _Training.of(self.network, _specs(batch), self._by_rows))
        self._training.make_others()
        return self._training.placed.loss(_tensors(batch))

    def compute_gradients(self, loss: Any, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the gradients of the last loss."""
        assert self._training is not None
        return self._training.placed.gradients(variables)

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        """Returns the update rules of the model's optimizer."""
        assert self._training is not None
        factor = learning_rate / np.float32(self.default_learning_rate)
        return self._training.step.rules.optimizer(factor, v1.train.get_or_create_global_step())

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[tf.Tensor, Any]]:
        """Returns the loss and the compiled metrics, as `test_step` updates them."""
        batch = outputs, labels
        scoring = self._once("test", batch, lambda specs: trace_scoring(self.network, specs))
        return scoring.metrics(_tensors(batch), self._tables)

    def predictions(self, outputs: Any) -> Mapping[str, tf.Tensor]:
        """Returns the outputs of `predict_step`."""
        prediction = self._once("predict", outputs, lambda specs: trace_prediction(self.network, specs))
        return prediction.outputs(_tensors(outputs), self._tables)

    def use_flags(self, job: Job) -> None:
        """Takes the choice for large embeddings."""
        self._by_rows = job.keras_tables == "rows"

    def notes(self) -> Sequence[str]:
        """Returns what is different of large embeddings."""
        return [] if self._training is None else self._training.placed.notes()

    def slot_values(self) -> Mapping[str, Any]:
        """Returns the state of an optimizer that has trained before."""
        return {} if self._training is None else self._training.step.rules.slot_values

    def saved_values(self, path: str, flag: str) -> Mapping[str, Any] | None:
        """Returns the values in a `.keras` or `.weights.h5` file; see `ps_train.Model.saved_values`."""
        if not is_weight_file(path):
            return None
        if self._training is None:
            check_weight_file(path, flag)
            return {}
        return eagerly(lambda: values_in(path, self.network, flag))

    def _once(self, what: str, batch: Any, trace: Callable[[Any], _Traced]) -> _Traced:
        """Returns a trace for batches of this structure, made at the first one."""
        specs = _specs(batch)
        key = what, repr(specs)
        known: dict[Any, Any] = self.__dict__.setdefault("_traces", {})
        if key not in known:
            known[key] = eagerly(lambda: trace(specs))
        found: _Traced = known[key]
        return found

    @property
    def _tables(self) -> frozenset[str] | None:
        """The variables of which only rows travel; None in a process that does not train."""
        return None if self._training is None else self._training.placed.tables


@dataclasses.dataclass(frozen=True)
class _Training:
    """The traced training step, and the values of the model's variables that it does not use."""

    step: TracedStep
    placed: PlacedStep
    others: Mapping[str, np.ndarray[Any, Any]]

    @classmethod
    def of(cls, network: Any, batch: Any, by_rows: bool) -> _Training:
        """Traces the training of a compiled model."""
        step = trace_step(network, batch)
        used = {one.key for one in step.variables}
        others = {key: one.numpy() for key, one in keyed_variables(network).items() if key not in used}
        return cls(step, PlacedStep(step, 0, by_rows), others)

    def make_others(self) -> None:
        """Makes the other variables, so checkpoints have the whole model."""
        for key, value in self.others.items():
            v1.get_variable(key, initializer=value, trainable=False, use_resource=True)


def _specs(batch: Any) -> Any:
    """Returns the specs of a batch of any size."""

    def spec(value: Any) -> Any:
        if isinstance(value, tf.Tensor):
            return tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        return tf.type_spec_from_value(value)

    return tf.nest.map_structure(spec, batch)


def _tensors(batch: Any) -> Sequence[tf.Tensor]:
    return [one for one in tf.nest.flatten(batch, expand_composites=True) if one is not None]
