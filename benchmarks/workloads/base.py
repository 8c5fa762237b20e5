"""What every workload is: a ps_train Model, with the sizes and rules that all contenders share.

    class Small(Workload):
        about = "MLP 784-256-128-64-10"
        batch_size = 64
        ...

Programs without TensorFlow cannot import these files: they get the data and the `network` in a file of
`peers/handover.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers.handover import Network
from ps_train import Arrays, Model

if TYPE_CHECKING:
    import tensorflow as tf

TEST_EXAMPLES = 2048
SHUFFLE_BUFFER = 10_000
"""Every contender shuffles alike (PyTorch's takes a random permutation)."""


class Workload(Model):
    """A classifier on data made at random.

    Attributes:
      about: one line for people.
      default_optimizer, default_learning_rate: the rule; all contenders use it with TensorFlow's other defaults.
      batch_size: examples in one batch of one worker.
      parameters: how many numbers a step needs and changes.
      check_steps: global steps after which all contenders' test losses are compared.
      tolerance: how far from their median they may be, as a share of it.
      warmup_steps: global steps that are left out of a measurement.
      settle_secs: seconds after them that are left out too: caches fill, bursts grow to their length, and calls of
        several steps are prepared.
      network: the same model as data, for programs without TensorFlow; None: they cannot train it.
    """

    about: str
    batch_size: int
    parameters: int
    check_steps: int
    tolerance: float = 0.1
    warmup_steps: int = 50
    settle_secs: float = 1.0
    inputs: int
    classes: int = 10
    train_examples: int = 16_384
    network: Network | None = None

    def data(self, split: str, data_dir: str) -> Arrays:
        """The same numbers for everybody; what can be learned is which prototype an example was made of."""
        return prototypes(self.inputs, self.classes, self.train_examples, split)

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        import tensorflow.compat.v1 as v1

        return {"loss": v1.metrics.mean(self.loss(outputs, labels))}

    def peers_forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        """`forward` for the other TensorFlow contenders: of plain variables."""
        return self.forward(features, training)


def prototypes(inputs: int, classes: int, train_examples: int, split: str) -> Arrays:
    """Noisy copies of one random vector for each class: features float32 [n, inputs], labels int64 [n].

    A fifth of the labels are random, so the loss levels off well above zero and relative differences mean something.
    """
    centres = np.random.default_rng(11).standard_normal((classes, inputs), np.float32) * (6.0 / np.sqrt(2 * inputs))
    generator = np.random.default_rng(12 if split == "train" else 13)
    count = train_examples if split == "train" else TEST_EXAMPLES
    labels = generator.integers(0, classes, count)
    features = generator.standard_normal((count, inputs), np.float32) + centres[labels].astype(np.float32)
    noisy = generator.random(count) < 0.2
    labels = np.where(noisy, generator.integers(0, classes, count), labels)
    return Arrays(features, labels.astype(np.int64))
