"""Dense residual layers, for TensorFlow and for PyTorch: deep, and yet they learn within a few hundred steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf


def residual_layers(features: tf.Tensor, width: int, count: int) -> tf.Tensor:
    """features [batch, width] plus what each of `count` rectified layers adds; the sum of all is of the size of one."""
    import tensorflow as tf

    from ps_train.models.layers import dense

    for number in range(count):
        features += count**-0.5 * tf.nn.relu(dense(features, width, f"layer{number}"))
    return features


def torch_residual_layers(width: int, count: int) -> list[Any]:
    """The same as PyTorch modules."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(width, width)

        def forward(self, features: Any) -> Any:
            return features + count**-0.5 * torch.relu(self.dense(features))

    return [Residual() for _ in range(count)]
