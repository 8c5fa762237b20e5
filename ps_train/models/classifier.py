"""The base class of classifiers: cross-entropy and accuracy."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from ps_train import Model

__all__ = ["Classifier"]


class Classifier(Model):
    """A classifier; outputs are logits, float32 [batch, classes], and labels class numbers, int64 [batch]."""

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy between the labels and the logits."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))

    def predictions(self, outputs: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns `classes`, int64 [batch], and `probabilities`, float32 [batch, classes]."""
        return {"classes": tf.argmax(outputs, axis=1), "probabilities": tf.nn.softmax(outputs)}

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns `accuracy`, the share of examples whose largest logit is that of the label."""
        return {"accuracy": tf.compat.v1.metrics.accuracy(labels, tf.argmax(outputs, axis=1))}
