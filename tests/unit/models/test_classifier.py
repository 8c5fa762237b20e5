"""Loss, predictions and accuracy of a classifier, against numpy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.classifier import Classifier
from tests.support.graphs.plain_models import softmax

LOGITS = np.random.default_rng(1).normal(0, 3, (6, 4)).astype(np.float32)
LABELS = np.array([3, 0, 1, 2, 2, 0])


def test_loss_predictions_and_accuracy_are_those_of_numpy() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        model, outputs, labels = Classifier(), tf.constant(LOGITS), tf.constant(LABELS)
        made = model.loss(outputs, labels), model.predictions(outputs), model.metrics(outputs, labels)
        session.run(v1.local_variables_initializer())
        session.run(made[2]["accuracy"][1])
        loss, predictions, (accuracy, _) = session.run((made[0], made[1], made[2]["accuracy"]))
    probabilities = softmax(LOGITS.astype(np.float64))
    np.testing.assert_allclose(loss, -np.log(probabilities[np.arange(6), LABELS]).mean(), rtol=1e-5)
    np.testing.assert_allclose(predictions["probabilities"], probabilities, rtol=1e-4)
    assert predictions["classes"].tolist() == LOGITS.argmax(1).tolist() and predictions["classes"].dtype == np.int64
    np.testing.assert_allclose(accuracy, np.mean(LOGITS.argmax(1) == LABELS))
