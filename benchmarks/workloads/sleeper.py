"""Sleeper: the traffic of `small` without its compute; a pause of tf.data stands in the place of forward and backward.

With it, sixteen workers fit on two cores, and what is seen is the ps and the transport.  Nothing is learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.workloads.base import Workload

if TYPE_CHECKING:
    import tensorflow as tf

_ROWS = 60


class Sleeper(Workload):
    about = "243 K parameters, SGD, a pause of tf.data instead of compute"
    default_optimizer = "sgd"
    default_learning_rate = 1e-6
    batch_size = 16
    parameters = 4 * _ROWS * 1011
    check_steps = 50
    inputs = 8
    classes = 1011
    train_examples = 1024

    def __init__(self, pause_ms: float = 50.0) -> None:
        self.pause_ms = pause_ms

    def forward(self, features: tf.Tensor, training: bool) -> Any:
        """The sum of all parameters, after a pause that begins when they have been pulled."""
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        from tensorflow.python.data.experimental.ops import testing  # the only place that has a sleeping dataset

        total = tf.zeros([])
        for number in range(4):
            total += tf.reduce_sum(v1.get_variable(f"w{number}", [_ROWS, self.classes]))
        if training:
            # The dataset sleeps twice: it is also asked whether that was all.
            pause = tf.data.Dataset.from_tensors(total).apply(testing.sleep(int(500 * self.pause_ms)))
            total += 0.0 * tf.stop_gradient(pause.get_single_element())
        return total

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        return outputs + 0.0 * tf.reduce_mean(tf.cast(labels, tf.float32))
