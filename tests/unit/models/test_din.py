"""The recipe of interest in earlier items: its data, and its outputs against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.din import ITEMS, KINDS, Din, planted
from tests.support.graphs.plain_models import PlainModel, cross_entropy, sigmoid

ITEM, HISTORY, CLICKS = np.array([3, 9, 9]), [[3, 4], [], [5, 6, 7]], np.float32([1, 0, 1])


def test_clicks_are_drawn_by_how_many_earlier_items_are_of_the_same_kind() -> None:
    features, clicks, logits = planted("train")
    kind = np.random.default_rng(3).integers(0, KINDS, ITEMS)
    pairs = zip(features["item"], features["history"], strict=True)
    same = np.array([sum(kind[one] == kind[item] for one in history) for item, history in pairs])
    np.testing.assert_allclose(logits, np.select([same == 0, same == 1], [-2.0, 1.5], 5.0))
    lengths = [len(history) for history in features["history"]]
    assert (min(lengths), max(lengths), len(lengths)) == (0, 12, 20_000)
    for value in np.unique(logits):
        own, share = clicks[logits == value], sigmoid(value)
        assert abs(own.mean() - share) < 4 * np.sqrt(share * (1 - share) / len(own))
    assert len(planted("test")[1]) == 5000 and not np.array_equal(planted("test")[2], logits[:5000])


def test_an_example_of_the_data_has_its_own_history() -> None:
    features, clicks, _ = planted("test")
    with tf.Graph().as_default(), v1.Session() as session:
        some = v1.data.make_one_shot_iterator(Din().data("test", "").skip(7).batch(2)).get_next()
        found, labels = session.run(({**some[0], "history": some[0]["history"].to_tensor(-1)}, some[1]))
    assert found["item"].tolist() == features["item"][7:9].tolist() and labels.tolist() == clicks[7:9].tolist()
    assert [row[row >= 0].tolist() for row in found["history"]] == [one.tolist() for one in features["history"][7:9]]


class Ragged(Din):
    """The same with the fixed histories of this test."""

    def forward(self, features, training):
        history = tf.RaggedTensor.from_row_lengths(np.concatenate(HISTORY).astype(np.int64), [2, 0, 3])
        return super().forward({"item": features, "history": history}, training)


@pytest.mark.parametrize("attention", [True, False])
def test_outputs_are_those_of_numpy(attention: bool) -> None:
    model = Ragged(dimension=3, attention=attention)
    plain = PlainModel(model, ITEM)
    item = plain.rows("items", ITEM).astype(np.float64)
    interest = np.zeros((3, 3))
    for number, history in enumerate(HISTORY):
        for key in plain.rows("items", history).astype(np.float64):
            asked = item[number]
            weight = np.ones(1)
            if attention:
                given = np.concatenate([asked, key, asked - key, asked * key])
                hidden = np.maximum(plain.dense(given, "attention/hidden1"), 0)
                weight = plain.dense(hidden, "attention/logits")
            interest[number] += weight * key
    logits = plain.perceptron(np.concatenate([item, interest, item * interest], 1), 1)[:, 0]
    np.testing.assert_allclose(plain.run(), logits, rtol=1e-3, atol=1e-3)
    loss = plain.run(lambda outputs: model.loss(outputs, CLICKS))
    np.testing.assert_allclose(loss, cross_entropy(CLICKS, logits).mean(), rtol=1e-3)
    np.testing.assert_allclose(plain.run(model.predictions)["probabilities"], sigmoid(logits), rtol=1e-3, atol=1e-6)
    assert set(plain.metrics(model, CLICKS)) == {"auc", "log_loss", "calibration"}
