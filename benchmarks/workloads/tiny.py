"""Tiny: what the tests of the benchmarks themselves run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.handover import Network, perceptron
from benchmarks.workloads.base import Workload

if TYPE_CHECKING:
    import tensorflow as tf


class Tiny(Workload):
    about = "softmax regression 8-3, SGD, batch 16"
    default_optimizer = "sgd"
    default_learning_rate = 0.1
    batch_size = 16
    parameters = 27
    check_steps = 100
    warmup_steps = 10
    inputs = 8
    classes = 3
    train_examples = 1024
    network = Network(perceptron(8, (), 3))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        from ps_train.models.layers import dense

        return dense(features, self.classes, "softmax")
