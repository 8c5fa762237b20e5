"""The examples that docs/MODELS.md shows are those of examples/recipes.py, and each of them trains."""

from __future__ import annotations

import inspect
import json

import pytest
import tensorflow as tf

from examples import recipes
from tests.support.long import long
from tests.support.processes import ROOT, Processes

MODELS = [
    recipes.BatchNorm,
    long(recipes.KerasLayers),
    long(recipes.GroupMetrics),
    long(recipes.Schedule),
    long(recipes.Summaries),
    long(recipes.OwnHook),
]


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_a_recipe_trains(processes: Processes, kind: type) -> None:
    run = processes.run(
        f"--model=examples.recipes:{kind.__name__}", "--max_steps=1500", "--num_workers=1", "--model_dir=m"
    )
    assert run.wait(100) == 0, run.output
    metrics = json.loads((processes.directory / "m" / "result.json").read_text())["metrics"]
    assert 0.009 < metrics["mse"] < 0.1  # the noise alone has 0.01, the best straight line 0.17
    if kind is recipes.GroupMetrics:
        assert 0.6 < metrics["grouped_auc"] < 1
    if kind is recipes.OwnHook:
        assert len([line for line in run.lines if line.startswith("greatest error ")]) >= 1
    if kind is recipes.BatchNorm:
        mean = tf.train.load_checkpoint(str(processes.directory / "m" / "model.ckpt-1500")).get_tensor("variance")
        assert abs(mean - 1.0).max() > 0.1  # the moving average has left its initial value


@pytest.mark.parametrize("thing", [recipes.batch_norm, *MODELS, recipes.PrintError], ids=lambda thing: thing.__name__)
def test_a_recipe_is_what_the_document_shows(thing: object) -> None:
    assert inspect.getsource(thing).rstrip() in (ROOT / "docs" / "MODELS.md").read_text()
