"""Small: what a tutorial trains.  Eight variables and sixteen slots; messages, not bytes, are what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.handover import Network, perceptron
from benchmarks.workloads.base import Workload

if TYPE_CHECKING:
    import tensorflow as tf

_HIDDEN = (256, 128, 64)


class Small(Workload):
    about = "MLP 784-256-128-64-10, Adam, batch 64"
    settle_secs = 25.0  # ours prepares calls of several steps, and rounds in one call, after some thousand steps
    default_optimizer = "adam"
    default_learning_rate = 0.001
    batch_size = 64
    parameters = 242_762
    check_steps = 150
    inputs = 784
    network = Network(perceptron(784, _HIDDEN, Workload.classes))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        from ps_train.models.layers import perceptron

        return perceptron(features, _HIDDEN, self.classes)
