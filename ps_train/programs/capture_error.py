"""The errors of a model_fn on the engine."""

from __future__ import annotations

import tensorflow.compat.v1 as v1

from ps_train.errors import DivergedError, ModelError


class CaptureError(ModelError):
    """The program does something that the engine cannot do in its place; the text is the reason."""


class NanLossError(DivergedError, v1.train.NanLossDuringTrainingError):
    """A loss or gradient is not finite: TensorFlow's error for it, with our text."""

    __str__ = Exception.__str__
