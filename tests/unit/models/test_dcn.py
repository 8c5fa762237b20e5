"""The recipe of crossed features: its data hide products, and its outputs are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.models.dcn import FIELDS, VALUES, Dcn, planted
from tests.support.graphs.plain_models import PlainModel, cross_entropy, sigmoid


def test_clicks_are_drawn_by_their_logits_which_are_products_alone() -> None:
    features, clicks, logits = planted("train")
    assert features["fields"].shape == (30_000, FIELDS) and features["numbers"].shape == (30_000, 3)
    assert clicks.dtype == features["numbers"].dtype == np.float32
    assert features["fields"].min() == 0 and features["fields"].max() == VALUES - 1
    expected = sigmoid(logits)
    deviation = np.sqrt(np.sum(expected * (1 - expected)))
    assert abs(clicks.sum() - expected.sum()) < 4 * deviation
    assert abs(((clicks - expected) * logits).sum()) < 4 * np.sqrt(np.sum(expected * (1 - expected) * logits**2))
    hidden = np.random.default_rng(4).normal(size=(FIELDS, VALUES))
    of = [hidden[field, features["fields"][:, field]] for field in range(3)]
    numbers = features["numbers"].astype(np.float64)
    again = 2 * of[0] * of[1] + 1.5 * of[2] * numbers[:, 0] * numbers[:, 1]
    np.testing.assert_allclose(logits, again, rtol=1e-4, atol=1e-5)


def test_the_splits_differ_and_are_the_same_every_time() -> None:
    train, test = planted("train", 4000), planted("test", 4000)
    assert len(test[1]) == 1000 and not np.array_equal(train[2][:1000], test[2])
    np.testing.assert_array_equal(planted("test", 4000)[2], test[2])
    np.testing.assert_array_equal(Dcn().data("test", "").labels, planted("test")[1])


FEATURES = {name: some[:5] for name, some in planted("test", 40)[0].items()}
CLICKS = np.float32([1, 0, 0, 1, 1])


@pytest.mark.parametrize(("layers", "hidden"), [(2, 32), (0, 7)])
def test_outputs_loss_and_probabilities_are_those_of_numpy(layers: int, hidden: int) -> None:
    model = Dcn(dimension=3, layers=layers, hidden=hidden)
    plain = PlainModel(model, FEATURES)
    rows = plain.rows("fields", FEATURES["fields"] + VALUES * np.arange(FIELDS))
    inputs = np.concatenate([rows.reshape(5, FIELDS * 3), FEATURES["numbers"]], 1).astype(np.float64)
    crossed = inputs
    for layer in range(1, layers + 1):
        crossed = inputs * plain.dense(crossed, f"cross/layer{layer}") + crossed
    deep = np.maximum(plain.perceptron(inputs, 1), 0)
    assert deep.shape == (5, hidden)
    logits = plain.dense(np.concatenate([crossed, deep], 1), "logit")[:, 0]
    np.testing.assert_allclose(plain.run(), logits, rtol=1e-4, atol=1e-3)
    loss = plain.run(lambda outputs: model.loss(outputs, CLICKS))
    np.testing.assert_allclose(loss, cross_entropy(CLICKS, logits).mean(), rtol=1e-4)
    found = plain.run(model.predictions)
    np.testing.assert_allclose(found["probabilities"], sigmoid(logits), rtol=1e-3, atol=1e-6)
    assert set(plain.metrics(model, CLICKS)) == {"auc", "log_loss", "calibration"}
