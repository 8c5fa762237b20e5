"""The recipe of conversions after a click: its data are no fair sample, its loss is of all impressions."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.models.clicks.synthetic import auc
from ps_train.models.esmm import Esmm, planted
from tests.support.graphs.plain_models import PlainModel, cross_entropy, sigmoid

FEATURES = {"user": np.array([0, 99, 7, 7]), "item": np.array([5, 99, 0, 6])}
LABELS = {
    "click": np.float32([1, 1, 0, 1]),
    "conversion": np.float32([1, 0, 0, 1]),
    "would_convert": np.float32([1, 0, 1, 0]),
}


def test_a_conversion_is_seen_after_a_click_alone_and_clicked_ones_convert_less() -> None:
    _, labels, logits = planted("train")
    click, conversion, would = (labels[name] for name in ("click", "conversion", "would_convert"))
    assert len(click) == 40_000 and {labels[name].dtype for name in labels} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(conversion, click * would)
    expected = sigmoid(logits)
    assert abs(would.sum() - expected.sum()) < 4 * np.sqrt(np.sum(expected * (1 - expected)))
    assert would[click == 1].mean() < would.mean() - 0.02
    assert len(planted("test")[2]) == 10_000 and not np.array_equal(planted("test")[2], logits[:10_000])
    np.testing.assert_array_equal(Esmm().data("test", "").labels["click"], planted("test")[1]["click"])


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_outputs_and_loss_are_those_of_numpy(weight: float) -> None:
    model = Esmm(dimension=3, click_weight=weight)
    plain = PlainModel(model, FEATURES)
    inputs = np.concatenate([plain.rows("users", FEATURES["user"]), plain.rows("items", FEATURES["item"])], 1)
    logits = {task: plain.perceptron(inputs, 1, f"{task}/")[:, 0] for task in ("click", "conversion")}
    found = plain.run()
    for task, expected in logits.items():
        np.testing.assert_allclose(found[task], expected, rtol=1e-4, atol=1e-4)
    both = sigmoid(logits["click"]) * sigmoid(logits["conversion"])
    bought = LABELS["conversion"]
    entropy = -bought * np.log(both) - (1 - bought) * np.log(1 - both)
    loss = plain.run(lambda outputs: model.loss(outputs, LABELS))
    np.testing.assert_allclose(loss, np.mean(weight * cross_entropy(LABELS["click"], logits["click"]) + entropy), 1e-4)
    predictions = plain.run(model.predictions)
    np.testing.assert_allclose(predictions["both"], both, rtol=1e-4)
    for task in logits:
        np.testing.assert_allclose(predictions[task], sigmoid(logits[task]), rtol=1e-4)
    metrics = plain.metrics(model, LABELS)
    assert metrics["click_auc"] == pytest.approx(auc(LABELS["click"], logits["click"]))
    assert metrics["conversion_auc"] == pytest.approx(auc(LABELS["would_convert"], logits["conversion"]))


def test_the_loss_is_finite_where_both_are_certain() -> None:
    outputs = {"click": np.float32([60, 60, -60, 60]), "conversion": np.float32([60, 60, 60, 60])}
    plain = PlainModel(Esmm(), FEATURES)
    assert np.isfinite(plain.run(lambda _: Esmm().loss(outputs, LABELS)))
