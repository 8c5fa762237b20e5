"""The base class of classifiers, against numpy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.classifier import Classifier

LOGITS = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [1.0, 1.0, 5.0], [0.5, 0.0, 0.0]], np.float32)
LABELS = np.array([0, 1, 0, 2])


def test_loss_predictions_and_accuracy() -> None:
    shares = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    with tf.Graph().as_default(), v1.Session() as session:
        model = Classifier()
        outputs, labels = tf.constant(LOGITS), tf.constant(LABELS)
        loss, predictions = model.loss(outputs, labels), model.predictions(outputs)
        ((name, (value, update)),) = model.metrics(outputs, labels).items()
        session.run(v1.local_variables_initializer())
        session.run(update)
        assert name == "accuracy" and session.run(value) == 0.5
        np.testing.assert_allclose(session.run(loss), -np.log(shares[range(4), LABELS]).mean(), rtol=1e-5)
        found = session.run(dict(predictions))
    np.testing.assert_allclose(found["probabilities"], shares, rtol=1e-5)
    assert found["classes"].tolist() == [0, 1, 2, 0]
