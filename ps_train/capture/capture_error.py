"""The error of a model_fn that cannot run on the engine."""

from __future__ import annotations

from ps_train.errors import ModelError


class CaptureError(ModelError):
    """The program does something that the engine cannot do in its place; the text is the reason."""
