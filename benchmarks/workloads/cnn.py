"""Cnn: the shipped convolutional network on synthetic shapes.  Computing is what it costs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.workloads.base import Workload
from ps_train import Arrays

if TYPE_CHECKING:
    import tensorflow as tf


class Cnn(Workload):
    about = (
        "ps_train.models.cifar10:ConvNet, six convolutions of 3x3 with batch norm, 288,746 parameters, Adam, batch 32"
    )
    default_optimizer = "adam"
    default_learning_rate = 0.002
    batch_size = 32
    parameters = 288_746
    check_steps = 300
    tolerance = 0.5
    warmup_steps = 20
    inputs = 32 * 32 * 3

    @functools.cached_property
    def _net(self) -> Any:
        from ps_train.models.cifar10 import ConvNet

        return ConvNet(augment=False)

    def data(self, split: str, data_dir: str) -> Arrays:
        """Returns the network's own synthetic pictures, uint8 [n, inputs]."""
        found = self._net.data(split, "")
        return Arrays(found.features.reshape([-1, self.inputs]), found.labels)

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        import tensorflow as tf

        return self._net.forward(tf.reshape(features, [-1, 32, 32, 3]), training)

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        return super().metrics(outputs, labels) | self._net.metrics(outputs, labels)
