"""The recipes of several tasks: shared and own experts, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.base.errors import ModelError
from ps_train.models.clicks.synthetic import auc
from ps_train.models.multitask import TASKS, WIDTH, Mmoe, Ple, planted
from tests.support.graphs.plain_models import PlainModel, cross_entropy, sigmoid, softmax

FEATURES = planted("test", 40)[0][:4]
LABELS = {"click": np.float32([1, 0, 0, 1]), "like": np.float32([0, 0, 1, 1])}


def test_both_tasks_are_drawn_by_a_shared_curve_and_one_of_their_own() -> None:
    features, labels, logits = planted("train")
    assert features.shape == (30_000, WIDTH) and features.dtype == np.float32
    for task in TASKS:
        expected = sigmoid(logits[task])
        deviation = np.sqrt(np.sum(expected * (1 - expected)))
        assert abs(labels[task].sum() - expected.sum()) < 4 * deviation
    hidden = np.linalg.qr(np.random.default_rng(6).normal(size=(WIDTH, WIDTH)))[0]
    shared, click, like = (features.astype(np.float64) @ hidden[:, :3]).T
    np.testing.assert_allclose(logits["click"] - 2 * click, 3 * np.sin(2 * shared), atol=1e-4)
    np.testing.assert_allclose(logits["like"] + 3 * np.abs(like) - 1, 3 * np.sin(2 * shared), atol=1e-4)
    test = Mmoe().data("test", "")
    assert len(test) == 7500 and not np.array_equal(test.features, features[:7500])


def experts(plain: PlainModel, inputs: np.ndarray, scope: str) -> np.ndarray:
    """[batch, count, units]"""
    outputs = np.einsum("bi,eij->bej", inputs, plain.variables[f"{scope}/weights"])
    return np.maximum(outputs + plain.variables[f"{scope}/bias"], 0)


def gated(plain: PlainModel, inputs: np.ndarray, outputs: np.ndarray, gate: str) -> np.ndarray:
    return np.einsum("be,bej->bj", softmax(plain.dense(inputs, gate)), outputs)


def mixtures_of_mmoe(plain: PlainModel) -> dict[str, np.ndarray]:
    outputs = experts(plain, FEATURES, "experts")
    assert outputs.shape == (4, 4, 6)
    return {task: gated(plain, FEATURES, outputs, f"{task}/gate") for task in TASKS}


def mixtures_of_ple(plain: PlainModel) -> dict[str, np.ndarray]:
    names = (*TASKS, "shared")
    inputs = dict.fromkeys(names, FEATURES)
    for level in ("level1", "level2"):
        found = {name: experts(plain, inputs[name], f"{level}/{name}") for name in names}
        assert {one.shape for one in found.values()} == {(4, 2, 6)}
        seen = {task: np.concatenate([found[task], found["shared"]], 1) for task in TASKS}
        seen["shared"] = np.concatenate([found[name] for name in names], 1)
        gates = names if level == "level1" else TASKS
        inputs = {**inputs, **{n: gated(plain, inputs[n], seen[n], f"{level}/{n}_gate") for n in gates}}
    return {task: inputs[task] for task in TASKS}


@pytest.mark.parametrize(("kind", "mixtures"), [(Mmoe, mixtures_of_mmoe), (Ple, mixtures_of_ple)])
def test_outputs_loss_and_metrics_are_those_of_numpy(kind: type[Mmoe], mixtures) -> None:
    model = kind(count=4, units=6, weights="1,0.5")
    plain = PlainModel(model, FEATURES)
    logits = {task: plain.perceptron(some, 1, f"{task}/tower/")[:, 0] for task, some in mixtures(plain).items()}
    found, predictions = plain.run(), plain.run(model.predictions)
    for task in TASKS:
        np.testing.assert_allclose(found[task], logits[task], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(predictions[task], sigmoid(logits[task]), rtol=1e-3)
    losses = [cross_entropy(LABELS[task], logits[task]).mean() for task in TASKS]
    loss = plain.run(lambda outputs: model.loss(outputs, LABELS))
    np.testing.assert_allclose(loss, losses[0] + 0.5 * losses[1], rtol=1e-3)
    expected = {f"{task}_auc": auc(LABELS[task], logits[task]) for task in TASKS}
    assert plain.metrics(model, LABELS) == pytest.approx(expected)


@pytest.mark.parametrize("weights", ["1", "1,2,3"])
def test_another_number_of_weights_is_refused(weights: str) -> None:
    with pytest.raises(ModelError, match=f"weights={weights} is not valid: give a number for each of click, like"):
        Mmoe(weights=weights)
