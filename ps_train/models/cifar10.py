"""CIFAR-10 models: a convolutional network and a residual network.  The binary files are read from --data_dir.

    python -m ps_train --flagfile=flags/cifar10.flags
    python -m ps_train --flagfile=flags/cifar10.flags --data_dir=data/cifar10

Without a data_dir they train on synthetic pictures of ten shapes, which are made in memory.  With one it is the
directory of CIFAR-10's binary version, or of its folder cifar-10-batches-bin.

--model_arg=decay_steps=N lets the learning rate fall until step N, usually --max_steps.  --model_arg=augment=false
leaves the training images as they are.  The rate of `ResNet20`, 0.1 with momentum, is its paper's for 128 images an
update, under --update=sync: smaller batches and --update=async need a smaller one.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, ModelError
from ps_train.data import Stream
from ps_train.models.classifier import Classifier
from ps_train.models.images import AugmentedImages, load_cifar10, synthetic_shapes
from ps_train.models.layers import batch_norm, convolution, dense

__all__ = ["ConvNet", "ImageModel", "ResNet20"]

_MEAN, _DEVIATION = (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)
"""Mean and standard deviation of red, green and blue in CIFAR-10's training images."""


class ImageModel(Classifier):
    """The base class of models for images of 32x32 pixels, uint8 [batch, 32, 32, 3], in ten classes.

    Args:
      augment: whether training images are shifted and mirrored at random.
      decay_steps: length of the learning rate's schedule in global steps, usually --max_steps; 0: no schedule.
    """

    default_optimizer = "momentum"

    def __init__(self, augment: bool = True, decay_steps: int = 0) -> None:
        if decay_steps < 0:
            raise ModelError(f"decay_steps={decay_steps} is not valid: use a whole number of at least 0.")
        self.augment, self.decay_steps = augment, decay_steps

    def data(self, split: str, data_dir: str) -> Arrays | Stream:
        """Returns a split of the files in `data_dir`, or of synthetic shapes if it is empty."""
        images, labels = _images(split, data_dir)
        return AugmentedImages(images, labels) if split == "train" and self.augment else Arrays(images, labels)

    def optimizer(self, name: str, learning_rate: float) -> Any:
        """Makes the optimizer of a name, whose rate follows the schedule of `decayed`."""
        rate = self.decayed(learning_rate, v1.train.get_global_step()) if self.decay_steps else learning_rate
        return super().optimizer(name, rate)

    def decayed(self, learning_rate: float, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate at a global step, which falls from `learning_rate` to 0 like a cosine.

        See Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5.
        """
        return v1.train.cosine_decay(learning_rate, step, self.decay_steps)


@functools.lru_cache(maxsize=2)
def _images(split: str, data_dir: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns images and labels; every graph of a process uses the same arrays."""
    return load_cifar10(data_dir, split) if data_dir else synthetic_shapes(split)


def _scaled(images: tf.Tensor) -> tf.Tensor:
    """Converts bytes to float32 with mean 0 and deviation 1 over CIFAR-10."""
    return (tf.cast(images, tf.float32) - tf.constant(_MEAN)) / tf.constant(_DEVIATION)


def _normalized(inputs: tf.Tensor, channels: int, name: str, training: bool, stride: int = 1) -> tf.Tensor:
    """Returns a convolution by 3x3 filters and its batch norm."""
    with v1.variable_scope(name):
        return batch_norm(convolution(inputs, channels, "convolution", stride=stride), training, "norm")


def _logits(inputs: tf.Tensor) -> tf.Tensor:
    """Returns the logits of features [batch, n], float32 [batch, 10]."""
    return tf.cast(dense(inputs, 10, "logits"), tf.float32)


class ConvNet(ImageModel):
    """Six convolutions of 3x3 with batch norm in three blocks, max pooling after each, dropout before the logits.

    The logits come from each channel's maximum over all pixels.

    Args:
      width: filters in the first block; the second has twice and the third four times as many.
      dropout: share of the last features that a training step leaves out.
      augment: see `ImageModel`.
      decay_steps: see `ImageModel`.
    """

    default_optimizer, default_learning_rate = "adam", 0.002

    def __init__(self, width: int = 32, dropout: float = 0.2, augment: bool = True, decay_steps: int = 0) -> None:
        super().__init__(augment, decay_steps)
        if width < 1:
            raise ModelError(f"width={width} is not valid: use a whole number of at least 1.")
        if not 0 <= dropout < 1:
            raise ModelError(f"dropout={dropout} is not valid: use a number from 0 to below 1.")
        self.width, self.dropout = width, dropout

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the logits, float32 [batch, 10], of images, uint8 [batch, 32, 32, 3]."""
        found = _scaled(features)
        for block in range(3):
            for layer in range(2):
                name = f"block{block + 1}/layer{layer + 1}"
                found = tf.nn.relu(_normalized(found, self.width << block, name, training))
            found = tf.nn.max_pool2d(found, 2, 2, "VALID")
        found = tf.reduce_max(found, [1, 2])
        return _logits(tf.nn.dropout(found, rate=self.dropout) if training else found)


class ResNet20(ImageModel):
    """The residual network with 20 layers of He et al. 2015 ("Deep Residual Learning for Image Recognition", 4.2).

    Three groups of three blocks have 16, 32 and 64 filters, on 32x32, 16x16 and 8x8 pixels.  A shortcut has no
    variables (option A): where a group begins it takes every second pixel and fills new channels with zeros.

    Args:
      augment: see `ImageModel`.
      decay_steps: steps of the schedule, 64,000 in the paper; 0: no schedule.
    """

    default_learning_rate = 0.1

    def __init__(self, augment: bool = True, decay_steps: int = 64_000) -> None:
        super().__init__(augment, decay_steps)

    def decayed(self, learning_rate: float, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate at a global step: a tenth from half of the schedule on, a hundredth from 3/4 on."""
        half, late = self.decay_steps // 2, 3 * self.decay_steps // 4
        rates = [learning_rate, learning_rate / 10, learning_rate / 100]
        return v1.train.piecewise_constant(step, [half, late], rates)

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the logits, float32 [batch, 10], of images, uint8 [batch, 32, 32, 3]."""
        found = tf.nn.relu(_normalized(_scaled(features), 16, "first", training))
        for group in range(3):
            for block in range(3):
                with v1.variable_scope(f"group{group + 1}/block{block + 1}"):
                    found = _residual(found, 16 << group, training)
        return _logits(tf.reduce_mean(found, [1, 2]))


def _residual(inputs: tf.Tensor, channels: int, training: bool) -> tf.Tensor:
    """Returns the sum of the inputs and two convolutions of them, rectified; half as large if `channels` is new."""
    new = channels - inputs.shape[-1]
    stride = 2 if new else 1
    found = tf.nn.relu(_normalized(inputs, channels, "layer1", training, stride))
    shortcut = tf.pad(inputs[:, ::stride, ::stride], [[0, 0], [0, 0], [0, 0], [new // 2, new - new // 2]])
    return tf.nn.relu(shortcut + _normalized(found, channels, "layer2", training))
