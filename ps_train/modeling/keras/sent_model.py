"""A Keras model that was traced, as a model of the engine.  It needs no Keras.

    python -m ps_train --job_name=worker --model=ps_train.modeling.keras.sent_model:SentKerasModel --model_arg=path=DIR ...

The features of this model are whole batches, because a step of Keras has its labels and weights among them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.data.arrays import Batch, DealtBatches
from ps_train.data.sent.sent_data import SentData
from ps_train.modeling.keras.portable_graph import Rows
from ps_train.modeling.keras.traced_step import FIXED, STATE, SUM, TRAINED, TracedStep, TracedVariable
from ps_train.modeling.model import SUMS, Model

_KEYS = v1.GraphKeys

SETTINGS = "settings.json"


def batches_of(data: SentData, deals: bool) -> DealtBatches:
    """Returns the batches of a fit.

    Args:
      data: the data.
      deals: True if a batch is of one worker; else all workers take parts of it.
    """
    return DealtBatches(lambda count, index: data.batches(count, index, deals))


def write_settings(directory: str, deals: bool) -> None:
    """Writes what `SentKerasModel` needs to know beside step and data."""
    with open(os.path.join(directory, SETTINGS), "w") as file:
        json.dump({"deals": deals}, file)



class TracedKerasModel(Model):
    """A model that computes a traced step.

    Args:
      step: the step.
    """

    has_epochs = True
    default_learning_rate = 1.0  # a factor of the optimizer's own rate
    gives_advice = False

    def __init__(self, step: TracedStep) -> None:
        self._step = step
        self._gradients: dict[str, Any] = {}
        self._tables: dict[str, Rows] = {}
        self._handed = 0

    @property
    def sums(self) -> int:
        """Number of values that are added up over the workers."""
        return sum(int(np.prod(one.value.shape)) for one in self._step.sums())

    def forward(self, features: Batch, training: bool) -> Any:
        """Returns the loss of a batch; its gradients are kept for `compute_gradients`."""
        if not training:
            raise ModelError("a traced step of Keras only trains: score with model.evaluate() or model.predict().")
        arguments = [one for one in tf.nest.flatten(features.features, expand_composites=True) if one is not None]
        given = [self._given(one) for one in self._step.variables]
        sums = [(one, variable) for one, variable in zip(self._step.variables, given, strict=True) if one.role == SUM]
        begun = [variable.assign(one.value, read_value=False) for one, variable in sums]
        with tf.control_dependencies(begun):
            ready = tf.no_op()
        (loss, *gradients), effects = self._step.graph.place(arguments, given, "keras", ready)
        for effect in effects:
            v1.add_to_collection(_KEYS.UPDATE_OPS, effect)
        with tf.control_dependencies([*effects, loss]):
            added = [variable.read_value() - one.value for one, variable in sums]
        if added:
            v1.add_to_collection(SUMS, tf.concat([tf.reshape(tf.cast(one, tf.float32), [-1]) for one in added], 0))
        self._gradients = self._by_name(gradients)
        return loss

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss that `forward` returned."""
        return outputs

    def compute_gradients(self, loss: Any, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the gradients of the last call of `forward`."""
        return self._step.rules.on_worker(self._gradients)

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        """Returns the traced updates for the current ps."""
        return self._step.rules.optimizer(learning_rate, v1.train.get_or_create_global_step())

    def _given(self, one: TracedVariable) -> Any:
        """Returns a variable, or a value in its place."""
        if one.role == SUM:
            return v1.get_variable(
                f"ps_train_sum/{one.key}",
                initializer=np.array(one.value),
                trainable=False,
                use_resource=True,
                collections=[_KEYS.LOCAL_VARIABLES],
            )
        if one.role == STATE:
            return v1.get_variable(one.key, initializer=one.value, trainable=False, use_resource=True)
        if one.role == FIXED:
            return self._fixed(one)
        variable = v1.get_variable(one.key, **self._shape(one), initializer=one.value, use_resource=True)
        return tf.convert_to_tensor(variable)

    def _shape(self, one: TracedVariable) -> dict[str, Any]:
        """Returns the shape, by which a variable may be divided; none where its rule needs the whole of it."""
        return {} if one.key in self._step.rules.not_divisible else {"shape": one.value.shape}

    def _fixed(self, one: TracedVariable) -> Any:
        """Returns this worker's copy of a variable that no step changes, read once in a session."""
        on_ps = v1.get_variable(one.key, initializer=one.value, trainable=False, use_resource=True)

        def value(*_: Any, **__: Any) -> tf.Tensor:
            return tf.identity(on_ps)

        return v1.get_variable(
            f"ps_train_here/{one.key}",
            shape=one.value.shape,
            dtype=tf.as_dtype(one.value.dtype),
            initializer=value,
            trainable=False,
            use_resource=True,
            collections=[_KEYS.LOCAL_VARIABLES],
        )

    def _by_name(self, gradients: Sequence[tf.Tensor]) -> dict[str, Any]:
        """Returns the gradient of each trained variable; its places count the loss too."""
        found: dict[str, Any] = {}
        for one in self._step.variables:
            if one.role == TRAINED and one.gradient:
                parts = [gradients[place - 1] for place in one.gradient]
                found[one.key] = tf.IndexedSlices(*parts) if one.is_sparse else parts[0]
        return found


class SentKerasModel(TracedKerasModel):
    """A model in a directory: its step, and the data of the fit.

    Args:
      path: the directory.
    """

    def __init__(self, path: str) -> None:
        super().__init__(TracedStep.read(path))
        self._path = path

    def data(self, split: str, data_dir: str) -> Any:
        """Returns the batches of the fit; there is no test split."""
        with open(os.path.join(self._path, SETTINGS)) as file:
            settings = json.load(file)
        return batches_of(SentData.read(self._path), settings["deals"]) if split == "train" else None
