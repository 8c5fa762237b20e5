"""A Keras model that was traced, as a model of the engine.  It needs no Keras.

    python -m ps_train --model=ps_train.modeling.keras.sent_model:SentKerasModel --model_arg=path=DIR ...

The features of this model are whole batches, because a step of Keras has its labels and weights among them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.config.job import Job
from ps_train.data.arrays import Batch, DealtBatches
from ps_train.data.sent.sent_data import SentData
from ps_train.modeling.keras.placed_step import PlacedStep
from ps_train.modeling.keras.traced_step import TracedStep
from ps_train.modeling.keras.update_rules import refused_flags
from ps_train.modeling.model import Model

SETTINGS = "settings.json"


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
    refused_flags: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("rack", "rack_file"), "the sums behind its metrics come from each worker; leave the racks out"
        ),
        "towers": "its step is traced for one device; use more workers",
        "warm_start": "it begins with the values of its Keras model; call ps_train.keras.load(model, ...) before",
        "export_dir": "it only trains; call model.export(...) afterwards",
    }

    def __init__(self, step: TracedStep) -> None:
        self._step = step
        self.sums = sum(int(np.prod(one.value.shape)) for one in step.sums())
        self.may_skip = step.rules.loss_scale is not None
        self.refused_flags = {**type(self).refused_flags, **refused_flags(step.rules.why_not_local)}  # type: ignore[misc]
        self._placed = PlacedStep(step, self.sums, by_rows=True)

    def use_flags(self, job: Job) -> None:
        """Takes the choice for large embeddings."""
        self._placed = PlacedStep(self._step, self.sums, job.keras_tables == "rows")

    def notes(self) -> Sequence[str]:
        """Returns what is different of large embeddings."""
        return self._placed.notes()

    def slot_values(self) -> Mapping[str, Any]:
        """Returns the state of an optimizer that has trained before."""
        return self._step.rules.slot_values

    def batches_of(self, data: SentData, deals: bool) -> DealtBatches:
        """Returns the batches of a fit, of which each worker gets its part.

        Args:
          data: the data.
          deals: True if a batch is of one worker; else all workers take parts of it.
        """

        def deal(count: int, index: int, start: tf.Tensor) -> tf.data.Dataset:
            return data.batches(count, index, deals, start)

        return DealtBatches(deal)

    def forward(self, features: Batch, training: bool) -> Any:
        """Returns the loss of a batch; its gradients are kept for `compute_gradients`."""
        if not training:
            raise ModelError("a traced step of Keras only trains: score with model.evaluate() or model.predict().")
        arguments = [one for one in tf.nest.flatten(features.features, expand_composites=True) if one is not None]
        return self._placed.loss(arguments)

    def loss(self, outputs: Any, labels: Any) -> tf.Tensor:
        """Returns the loss that `forward` returned."""
        return outputs

    def compute_gradients(self, loss: Any, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the gradients of the last call of `forward`."""
        return self._placed.gradients(variables)

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        """Returns the traced updates for the current ps."""
        return self._step.rules.optimizer(learning_rate, v1.train.get_or_create_global_step())


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
        return self.batches_of(SentData.read(self._path), settings["deals"]) if split == "train" else None
