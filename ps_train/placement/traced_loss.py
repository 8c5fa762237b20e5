"""The loss of a model in its trace, with errors for outputs and losses that cannot be trained."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ps_train.data.batched import Batch
from ps_train.data.named_inputs import named_inputs, of_kind
from ps_train.data.pipeline import Batches
from ps_train.errors import ModelError
from ps_train.model import Model
from ps_train.user_code import shown, user_code


def traced_loss(model: Model, batches: Batches) -> tf.Tensor:
    """Returns the loss of a batch in training.

    Raises:
      ModelError: forward() or loss() raised an exception, or the loss is not a floating-point scalar.
    """
    inputs = named_inputs(batches.features, batches.labels)
    with user_code("forward()", inputs if isinstance(batches.features, Batch) else of_kind("feature", inputs)):
        outputs = model.forward(batches.features, True)
    if outputs is None:
        raise ModelError("forward() returned None: return the outputs, which loss() gets.")
    with user_code("loss()", of_kind("label", inputs)):
        loss = model.loss(outputs, batches.labels)
    _check_loss(loss)
    return loss


def _check_loss(loss: Any) -> None:
    if not isinstance(loss, tf.Tensor) or not loss.dtype.is_floating:
        raise ModelError(f"loss() returned {shown(loss)}: return a floating-point scalar tensor.")
    if loss.shape.rank != 0:
        raise ModelError(f"loss() returned a tensor of shape {loss.shape}, not a scalar: use tf.reduce_mean on it.")
