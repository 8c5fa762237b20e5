"""Losses for clicks and rankings: focal, class weights, label smoothing, and pairs or lists within groups.

    def loss(self, outputs, labels):
        return tf.reduce_mean(losses.sigmoid(labels, outputs, smoothing=0.01, positive_weight=5.0))

`sigmoid`, `focal` and `softmax` return a loss for each example, of which a model returns the mean.  `pairwise` and
`listwise` compare the examples of a group, such as those of one request, and return a mean.  A group must be in one
batch: examples of a group that are in different batches are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_train.base.errors import ModelError

__all__ = ["focal", "listwise", "pairwise", "sigmoid", "softmax"]


def sigmoid(labels: Any, logits: tf.Tensor, smoothing: float = 0.0, positive_weight: float = 1.0) -> tf.Tensor:
    """Returns the cross-entropy of each example with two classes, float32 in the shape of the logits.

    Args:
      labels: 0 to 1, in the shape of the logits.
      logits: floats of any shape.
      smoothing: share s of a label that is replaced by 1/2: a label y becomes (1 - s) y + s / 2 (Szegedy et al. 2016,
        "Rethinking the Inception Architecture for Computer Vision", section 7).
      positive_weight: weight of the class 1.  Above 1 predicted probabilities are too large by design.
    """
    _check("smoothing", smoothing, 0.0, 1.0)
    _check("positive_weight", positive_weight, 0.0)
    logits = tf.cast(logits, tf.float32)
    labels = tf.cast(labels, tf.float32) * (1 - smoothing) + smoothing / 2
    return tf.nn.weighted_cross_entropy_with_logits(labels, logits, positive_weight)


def focal(labels: Any, logits: tf.Tensor, gamma: float = 2.0, alpha: float | None = None) -> tf.Tensor:
    """Returns the focal loss of each example, float32 in the shape of the logits.

    It is the cross-entropy times (1 - p)^gamma, where p is the probability that the model gives to the example's class
    (Lin et al. 2017, "Focal Loss for Dense Object Detection", equation 5).

    Args:
      labels: 0 or 1, in the shape of the logits.
      logits: floats of any shape.
      gamma: 0 gives the cross-entropy; a larger number gives less weight to examples that are predicted well.
      alpha: weight of the class 1, and 1 - alpha that of the class 0; None: both have the weight 1.
    """
    _check("gamma", gamma, 0.0)
    labels, logits = tf.cast(labels, tf.float32), tf.cast(logits, tf.float32)
    # -log of the probability of the class 0 and of the class 1.  Unlike TensorFlow's cross-entropy they keep a gradient
    # that is far below 1: no 1 is subtracted from another one.
    of_0, of_1 = tf.nn.softplus(logits), tf.nn.softplus(-logits)
    losses = labels * of_1 + (1 - labels) * of_0
    losses *= tf.exp(-gamma * (labels * of_0 + (1 - labels) * of_1))  # the power of 1 - p
    if alpha is None:
        return losses
    _check("alpha", alpha, 0.0, 1.0)
    return losses * (labels * alpha + (1 - labels) * (1 - alpha))


def softmax(
    labels: tf.Tensor, logits: tf.Tensor, smoothing: float = 0.0, class_weights: Sequence[float] | None = None
) -> tf.Tensor:
    """Returns the cross-entropy of each example with several classes, float32 [batch].

    Args:
      labels: class numbers, [batch].
      logits: [batch, classes].
      smoothing: share of a label that is spread evenly over all classes; see `sigmoid`.
      class_weights: weight of the examples of each class, [classes]; None: all have the weight 1.
    """
    _check("smoothing", smoothing, 0.0, 1.0)
    logits = tf.cast(logits, tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    if smoothing:
        spread = tf.reduce_logsumexp(logits, 1) - tf.reduce_mean(logits, 1)
        losses = (1 - smoothing) * losses + smoothing * spread
    if class_weights is None:
        return losses
    if len(class_weights) != logits.shape[1]:
        raise ModelError(
            f"class_weights has {len(class_weights)} numbers for {logits.shape[1]} classes: give one each."
        )
    return losses * tf.gather(tf.constant(class_weights, tf.float32), labels)


def pairwise(labels: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
    """Returns the mean loss of all pairs of a group whose labels differ; 0 without any.  It takes batch^2 memory.

    The loss of a pair is log(1 + exp(-d)), where d is the score of the example with the higher label minus that of the
    other (Burges et al. 2005, "Learning to Rank using Gradient Descent", RankNet).

    Args:
      labels: numbers [batch].
      scores: floats [batch].
      groups: whole numbers or strings [batch].
    """
    labels, scores = tf.cast(labels, tf.float32), tf.cast(scores, tf.float32)
    same = tf.equal(groups[:, tf.newaxis], groups[tf.newaxis, :])
    pairs = tf.cast(same & (labels[:, tf.newaxis] > labels[tf.newaxis, :]), tf.float32)
    losses = tf.nn.softplus(scores[tf.newaxis, :] - scores[:, tf.newaxis])
    return tf.math.divide_no_nan(tf.reduce_sum(losses * pairs), tf.reduce_sum(pairs))


def listwise(labels: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
    """Returns the mean over groups of the cross-entropy between the labels' and the scores' distributions.

    The labels of a group, divided by their sum, are one distribution over its examples, and the softmax of its scores
    is the other.  With one click a group it is the softmax cross-entropy of the clicked example (Cao et al. 2007,
    "Learning to Rank: From Pairwise Approach to Listwise Approach", ListNet).  Groups whose labels are all 0 do not
    count.

    Args:
      labels: numbers of at least 0, [batch].
      scores: floats [batch].
      groups: whole numbers or strings [batch].
    """
    labels, scores = tf.cast(labels, tf.float32), tf.cast(scores, tf.float32)
    names, segment = tf.unique(groups)
    count = tf.size(names)
    highest = tf.stop_gradient(tf.math.unsorted_segment_max(scores, segment, count))
    shifted = scores - tf.gather(highest, segment)
    norms = tf.math.log(tf.math.unsorted_segment_sum(tf.exp(shifted), segment, count))
    totals = tf.math.unsorted_segment_sum(labels, segment, count)
    target = tf.math.divide_no_nan(labels, tf.gather(totals, segment))
    losses = target * (tf.gather(norms, segment) - shifted)
    return tf.math.divide_no_nan(tf.reduce_sum(losses), tf.reduce_sum(tf.cast(totals > 0, tf.float32)))


def _check(name: str, given: float, least: float, most: float = float("inf")) -> None:
    if not least <= given <= most:
        allowed = f"{least:g} to {most:g}" if most < float("inf") else f"at least {least:g}"
        raise ModelError(f"{name}={given} is not valid: use a number of {allowed}.")
