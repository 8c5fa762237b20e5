"""Class weights are those of Keras, for labels of every form."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.data.sent.sent_data import SentData, sent_data
from tests.support.sent_batches import read

X = np.arange(12, dtype=np.float32).reshape(6, 2)
CLASSES = np.array([0, 2, 1, 0, 2, 1])
WEIGHTS = {0: 0.5, 2: 3.0}


def of_keras(y):
    """The weights that a train_step of Keras gets."""
    seen = []

    class Spy(keras.Model):
        def train_step(self, data):
            tf.numpy_function(lambda weights: seen.append(weights), [data[2]], [])
            return {"loss": tf.constant(0.0)}

    model = Spy()
    model.compile(jit_compile=False)
    model.fit(X, y, class_weight=WEIGHTS, shuffle=False, verbose=0)
    return seen[0]


@pytest.mark.parametrize(
    "y", [CLASSES, CLASSES[:, None], CLASSES.astype(np.float32), np.eye(3)[CLASSES]], ids=["n", "n1", "float", "onehot"]
)
def test_weights_are_those_of_keras(tmp_path, y):
    data = sent_data(X, y, class_weight=WEIGHTS, shuffle=False)
    data.write(str(tmp_path))
    for found in (data, SentData.read(str(tmp_path))):
        _, _, weights = read(found, 1)[0][0]
        assert weights.tolist() == of_keras(y).tolist() == [0.5, 3, 1, 0.5, 3, 1]
        assert weights.dtype == found.element_spec[2].dtype == np.float32
        assert found.element_spec[2].shape.as_list() == [None]
    assert data.first_batch()[2].numpy().tolist() == weights.tolist()


def test_batches_of_a_dataset_get_weights_too():
    dataset = tf.data.Dataset.from_tensor_slices((X, CLASSES)).batch(4)
    weights = [batch[2].tolist() for batch, _ in read(sent_data(dataset, class_weight=WEIGHTS), 2, 2, 1)]
    assert weights == [[1, 0.5], [1]]


@pytest.mark.parametrize("form", [(6,), (6, 1)])
def test_weights_of_classes_and_of_examples_multiply(form):
    own = np.arange(6.0).reshape(form)
    data = sent_data(X, CLASSES, own, class_weight=WEIGHTS, shuffle=False)
    assert read(data, 1)[0][0][2].tolist() == [0, 3, 2, 1.5, 12, 5]


@pytest.mark.parametrize(
    ("class_weight", "y", "words"),
    [
        ({"a": 1.0}, CLASSES, "not a dict from the numbers"),
        ([1.0, 2.0], CLASSES, "not a dict from the numbers"),
        ({0: 1.0}, None, "needs labels"),
        ({0: 1.0}, [CLASSES, CLASSES], "for one output"),
    ],
)
def test_bad_weights_are_refused(class_weight, y, words):
    with pytest.raises(ConfigError, match=words):
        sent_data(X, y, class_weight=class_weight)
