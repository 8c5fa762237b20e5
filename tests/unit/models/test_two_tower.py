"""The recipe of retrieval: its data, its towers and its loss, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train import negatives
from ps_train.models.two_tower import ITEMS, TOP, USERS, TwoTower, planted
from tests.support.graphs.plain_models import PlainModel, softmax

FEATURES = {"user": np.array([0, 299, 7, 7, 8]), "item": np.array([5, 199, 0, 5, 6])}


def test_items_are_drawn_by_the_softmax_of_their_logits() -> None:
    features, logits = planted("train", 20_000)
    shares = softmax(logits)
    assert logits.shape == (20_000, ITEMS) and features["user"].max() == USERS - 1
    for item in np.argsort(-shares.sum(0))[:5]:
        expected, found = shares[:, item], features["item"] == item
        assert abs(found.sum() - expected.sum()) < 4 * np.sqrt(np.sum(expected * (1 - expected)))
    test = TwoTower().data("test", "")
    assert len(test) == 10_000
    np.testing.assert_array_equal(test.labels, test.features["item"])


def tower(plain: PlainModel, name: str, ids: np.ndarray) -> np.ndarray:
    rows = plain.rows(name, ids).astype(np.float64)
    hidden = np.maximum(plain.dense(rows, f"{name}_tower/hidden"), 0)
    return rows + plain.dense(hidden, f"{name}_tower/vector")


@pytest.mark.parametrize("training", [True, False])
def test_towers_are_those_of_numpy_and_of_all_items_outside_of_training(training: bool) -> None:
    plain = PlainModel(TwoTower(dimension=4), FEATURES, training)
    ids = FEATURES["item"] if training else np.arange(ITEMS)
    found = plain.run()
    assert found["ids"].tolist() == ids.tolist()
    np.testing.assert_allclose(found["user"], tower(plain, "users", FEATURES["user"]), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found["items"], tower(plain, "items", ids), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("correct", "hardest"), [(True, 0), (False, 0), (False, 2)])
def test_the_loss_is_the_softmax_against_the_other_items_of_the_batch(correct: bool, hardest: int) -> None:
    model = TwoTower(dimension=4, correct=correct, hardest=hardest)
    plain = PlainModel(model, FEATURES)
    loss = plain.run(lambda outputs: model.loss(outputs, None))
    if correct:
        expected, other = (
            PlainModel(model, FEATURES)
            .run(lambda o, correct=correct: negatives.in_batch(o["user"], o["items"], o["ids"], correct))
            .mean()
            for correct in (True, False)
        )
        assert loss == pytest.approx(expected) and loss != pytest.approx(other)
        return
    scores = tower(plain, "users", FEATURES["user"]) @ tower(plain, "items", FEATURES["item"]).T
    losses = []
    for number, item in enumerate(FEATURES["item"]):
        others = np.sort(scores[number, FEATURES["item"] != item])[::-1]
        others = others[:hardest] if hardest else others
        losses.append(np.logaddexp.reduce([scores[number, number], *others]) - scores[number, number])
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-3)


def test_recall_and_predictions_are_of_the_ten_best_items() -> None:
    model = TwoTower(dimension=4)
    plain = PlainModel(model, FEATURES, training=False)
    scores = tower(plain, "users", FEATURES["user"]) @ tower(plain, "items", np.arange(ITEMS)).T
    best = np.argsort(-scores, 1)[:, :TOP]
    found = plain.run(model.predictions)
    assert found["items"].shape == (5, TOP) == best.shape
    assert [set(one) for one in found["items"].tolist()] == [set(one) for one in best.tolist()]
    np.testing.assert_allclose(found["vector"], tower(plain, "users", FEATURES["user"]), rtol=1e-3, atol=1e-3)
    labels = np.array([best[0, TOP - 1], best[1, 0], 0, 1, best[4, 3]])
    expected = np.mean([label in row for label, row in zip(labels, best, strict=True)])
    assert plain.metrics(model, labels) == pytest.approx({"recall": expected}) and 0 < expected < 1
