"""Labels of one dimension train a model of several outputs, as in Keras 2."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.distribute import legacy_shapes

X = np.random.RandomState(0).rand(16, 3).astype("f")


def trained(labels, outputs, loss, metrics=()):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(outputs)])
    model.compile("sgd", loss, metrics=[*metrics])
    model.fit(X, labels, batch_size=8, verbose=0, shuffle=False)
    return model


def test_each_output_is_compared_with_the_label(replaced):
    legacy_shapes.install(replaced)
    labels = X.sum(1)
    model = trained(labels, 4, "mse", ["mae"])
    wanted = trained(np.repeat(labels[:, None], 4, axis=1), 4, "mse")
    np.testing.assert_allclose(model.get_weights()[0], wanted.get_weights()[0], rtol=1e-6)
    predictions = model(X).numpy()
    score = model.evaluate(X, labels, verbose=0, return_dict=True)
    assert score["mae"] == pytest.approx(np.abs(predictions - labels[:, None]).mean(), rel=1e-5)


def test_losses_that_take_such_labels_are_as_before(replaced):
    labels = np.arange(16) % 4
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    before = trained(labels, 4, loss, ["accuracy"])
    score = before.evaluate(X, labels, verbose=0)
    legacy_shapes.install(replaced)
    after = trained(labels, 4, loss, ["accuracy"])
    np.testing.assert_array_equal(after.get_weights()[0], before.get_weights()[0])
    assert after.evaluate(X, labels, verbose=0) == score


def test_labels_of_another_structure_stay():
    labels, predictions = {"a": tf.zeros(3)}, {"a": tf.zeros((3, 2)), "b": tf.zeros((3, 2))}
    assert legacy_shapes.with_rank_of(labels, predictions) is labels
    assert legacy_shapes.with_rank_of(None, predictions) is None
    assert legacy_shapes.with_rank_of({"a": tf.zeros(3)}, {"a": tf.zeros((3, 2))})["a"].shape == (3, 1)
