"""Large: more than 100 MB of parameters.  Bytes are what it costs; the report states how they compare with compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.handover import Layer, Network, residuals
from benchmarks.workloads.base import Workload
from benchmarks.workloads.residual import residual_layers

if TYPE_CHECKING:
    import tensorflow as tf

_LAYERS, _WIDTH = 6, 2048


class Large(Workload):
    about = "784-2048, 6 dense residual layers of 2048x2048, 2048-10 (26.8 M parameters), SGD, batch 32"
    default_optimizer = "sgd"
    default_learning_rate = 0.005
    batch_size = 32
    parameters = 26_806_282
    check_steps = 100
    warmup_steps = 10
    inputs = 784
    network = Network(
        (Layer("dense", 784, _WIDTH), *residuals(_WIDTH, _LAYERS), Layer("dense", _WIDTH, Workload.classes))
    )

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        from ps_train.models.layers import dense

        wide = dense(features, _WIDTH, "first")
        return dense(residual_layers(wide, _WIDTH, _LAYERS), self.classes, "logits")
