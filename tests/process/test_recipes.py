"""The recipes that the pages show are those of examples/recipes.py, and each of them trains."""

from __future__ import annotations

import inspect
import json
import re

import numpy as np
import pytest
import tensorflow as tf

import ps_train
from examples import my_din, recipes
from ps_train.models import din, multitask
from ps_train.models.clicks.synthetic import auc
from tests.support.long import long
from tests.support.machine.processes import ROOT, Processes

MODELS = [
    recipes.BatchNorm,
    long(recipes.KerasLayers),
    long(recipes.GroupMetrics),
    long(recipes.Schedule),
    long(recipes.Summaries),
    long(recipes.OwnHook),
    long(recipes.Crossed),
]


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_a_recipe_trains(processes: Processes, kind: type) -> None:
    run = processes.run(
        f"--model=examples.recipes:{kind.__name__}", "--max_steps=800", "--num_workers=1", "--model_dir=m"
    )
    assert run.wait(100) == 0, run.output
    metrics = json.loads((processes.directory / "m" / "result.json").read_text())["metrics"]
    assert 0.009 < metrics["mse"] < 0.1  # the noise alone has 0.01, the best straight line 0.17
    if kind is recipes.GroupMetrics:
        assert 0.6 < metrics["grouped_auc"] < 1
    if kind is recipes.OwnHook:
        assert len([line for line in run.lines if line.startswith("greatest error ")]) >= 1
    if kind is recipes.BatchNorm:
        mean = tf.train.load_checkpoint(str(processes.directory / "m" / "model.ckpt-800")).get_tensor("variance")
        assert abs(mean - 1.0).max() > 0.1  # the moving average has left its initial value


def test_the_pages_show_the_recipes_as_they_are() -> None:
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("models", "ranking"))
    shown = re.findall(r"^(?:class \w+\(Curve\)|def batch_norm).*?(?=```)", pages, re.MULTILINE | re.DOTALL)
    assert len(shown) == len(MODELS)  # the function stands for the class BatchNorm
    assert [text for text in shown if text.rstrip() not in inspect.getsource(recipes)] == []


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("update", ["async", "bounded", "sync"])
def test_a_copied_recipe_reads_files_trains_in_every_mode_and_predicts_from_its_export(
    processes: Processes, update: str
) -> None:
    pytest.importorskip("pyarrow")
    my_din.make_files(processes.directory / "data")
    run = processes.run(
        "--model=examples.my_din:MyDin", "--data_dir=data", "--batch_size=128", "--max_steps=800", "--num_ps=2",
        f"--update={update}", "--model_dir=m", "--export_dir=export", "--learning_rate=0.02",
    )  # fmt: skip
    assert run.wait(350) == 0, run.output
    score = json.loads((processes.directory / "m" / "result.json").read_text())["metrics"]["auc"]
    assert score > 0.84  # the hidden model has 0.893
    features, clicks, _ = din.planted("test")
    users = np.random.default_rng(9).integers(0, 500, len(clicks))
    arrays = {"user": users, "item": features["item"], "seen": [some.tolist() for some in features["history"]]}
    found = ps_train.predict(str(processes.directory / "export"), arrays)["probabilities"]
    assert auc(clicks, found) == pytest.approx(score, abs=2e-3)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_recipe_with_several_tasks_predicts_each_of_them_from_its_export(processes: Processes) -> None:
    run = processes.run(
        "--model=ps_train.models.multitask:Ple", "--model_arg=weights=1,0.5", "--batch_size=128", "--max_steps=800",
        "--model_dir=m", "--export_dir=export", "--update=sync",
    )  # fmt: skip
    assert run.wait(350) == 0, run.output
    scores = json.loads((processes.directory / "m" / "result.json").read_text())["metrics"]
    features, labels, _ = multitask.planted("test")
    found = ps_train.predict(str(processes.directory / "export"), features)
    for task in multitask.TASKS:
        assert auc(labels[task], found[task]) == pytest.approx(scores[f"{task}_auc"], abs=2e-3)
        assert scores[f"{task}_auc"] > 0.85


@pytest.mark.long
def test_an_exported_model_is_neutral_to_the_position_whose_bias_it_has_learned(processes: Processes) -> None:
    run = processes.run(
        "--model=tests.support.models.small:Positioned", "--num_ps=1", "--num_workers=2", "--batch_size=256",
        "--max_steps=800", "--model_dir=m", "--export_dir=export",
    )  # fmt: skip
    assert run.wait(200) == 0, run.output
    x = np.linspace(-2, 2, 5).astype(np.float32)
    found = [
        ps_train.predict(str(processes.directory / "export"), {"x": x, "position": np.full(5, place)})["logits"]
        for place in (0, 4, 99)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], 2 * x + 1, atol=0.3)  # that of the first position
    biases = tf.train.load_checkpoint(str(processes.directory / "m" / "model.ckpt-800")).get_tensor("position_bias")
    np.testing.assert_allclose(biases, [-1, -2, -3, -4], atol=0.4)
