"""Wide: very many small variables.  Where each travels in a message of its own, messages are all that it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.handover import Layer, Network, residuals
from benchmarks.workloads.base import Workload
from benchmarks.workloads.residual import residual_layers

if TYPE_CHECKING:
    import tensorflow as tf

_LAYERS, _WIDTH = 50, 64


class Wide(Workload):
    about = "50 dense residual layers of 64x64 (102 variables), Momentum, batch 64"
    default_optimizer = "momentum"
    default_learning_rate = 0.01
    batch_size = 64
    parameters = 208_650
    settle_secs = 60.0  # ours prepares calls of several steps after some thousand steps
    check_steps = 200
    inputs = _WIDTH
    network = Network((*residuals(_WIDTH, _LAYERS), Layer("dense", _WIDTH, Workload.classes)))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        from ps_train.models.layers import dense

        return dense(residual_layers(features, _WIDTH, _LAYERS), self.classes, "logits")
