"""Whole jobs of models with one mistake: one cause, the right exit code, no hang, no process left."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import long
from tests.support.machine.processes import Processes

MODELS = "--model=tests.support.models.bad:"


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ("MetricsOfNumbers", ["metrics() returned", "'error'", "(value, update)"]),
        long("TestDataOfLists", ["data() returned list [1, 2, 3]"]),
        long("NoLoss", ["NoLoss.loss is None, not a method"]),
        long("OptimizerByName", ["optimizer() returned str 'sgd'"]),
        long("HooksOfNumbers", ["hooks() returned list", "SessionRunHook"]),
    ],
)
def test_a_mistake_costs_one_line_before_any_step(processes: Processes, model: str, texts: list[str]) -> None:
    run = processes.run(MODELS + model, f"--model_dir={processes.directory}/m")
    assert run.wait(60) == 2, run.output
    assert [text for text in texts if text not in run.lines[-1]] == [], run.output
    assert "Traceback" not in run.output and "step " not in run.output
    causes = {line[line.index(texts[0]) :] for line in run.lines if texts[0] in line}
    assert len(causes) == 1, "every process tells the same cause"
    assert run.descendants() == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "cause"),
    [
        ("RaisesMidway", "record 150 has no label"),
        long("ChangesItsType", "many"),
        long("ChangesItsShape", "shape (4,)"),
    ],
)
def test_data_that_go_wrong_midway_end_the_job_with_their_cause(processes: Processes, model: str, cause: str) -> None:
    run = processes.run(MODELS + model, f"--model_dir={processes.directory}/m", "--epochs=1", "--num_workers=1")
    assert run.wait(90) in (1, 2), run.output
    assert cause in run.lines[-1], run.output
    assert run.descendants() == []


def test_features_that_cannot_be_exported_are_refused_before_training(processes: Processes) -> None:
    options = [f"--model_dir={processes.directory}/m", f"--export_dir={processes.directory}/e", "--num_workers=1"]
    run = processes.run(MODELS + "NestedFeatures", *options)
    assert run.wait(90) == 2, run.output
    assert (
        "feature features is a tuple: an export has" in run.lines[-1] and "leave out --export_dir" in run.lines[-1]
    ), run.output
    assert "step " not in run.output and run.descendants() == []


def test_values_that_are_not_finite_are_named_before_the_loss_is_not_finite_either(processes: Processes) -> None:
    run = processes.run(MODELS + "NotFinite", f"--model_dir={processes.directory}/m", "--num_workers=1")
    assert run.wait(90) == 1, run.output
    assert "warning: features of the train data has 1 values that are NaN or infinite" in run.output
    assert "not a finite number" in run.lines[-1] and "Traceback" not in run.output
    assert "(1 in features); correct the data" in run.lines[-1] and "learning_rate" not in run.lines[-1]


def test_labels_that_a_binary_cross_entropy_cannot_use_are_warned_of_and_train(processes: Processes) -> None:
    run = processes.run(MODELS + "Signs", f"--model_dir={processes.directory}/m", "--max_steps=20", "--num_workers=1")
    assert run.wait(90) == 0, run.output
    assert "gets labels from -1 to 1 and needs 0 to 1" in run.output and "bad.py, line " in run.output


@pytest.mark.usual(1)
@pytest.mark.parametrize("model", ["OtherNames", "Lists"])
def test_other_names_and_lists_train(processes: Processes, model: str) -> None:
    run = processes.run(MODELS + model, f"--model_dir={processes.directory}/m", "--max_steps=20", "--num_workers=1")
    assert run.wait(90) == 0, run.output
    assert json.loads((processes.directory / "m" / "result.json").read_text())["global_step"] == 20


@pytest.mark.parametrize("update", [long("async"), long("sync")])
def test_layers_of_tensorflow_1_train_with_tf_keras(processes: Processes, update: str) -> None:
    pytest.importorskip("tf_keras")
    options = ["--model=tests.support.models.small:LegacyLayers", f"--update={update}", "--num_ps=2", "--num_workers=1"]
    directories = [f"--model_dir={processes.directory}/m", f"--export_dir={processes.directory}/e"]
    run = processes.run(*options, *directories, "--max_steps=20", new=True, env={"TF_USE_LEGACY_KERAS": "1"})
    assert run.wait(120) == 0, run.output
    values = tf.train.load_checkpoint(str(processes.directory / "m"))
    np.testing.assert_allclose(values.get_tensor("norm/moving_mean"), [1 - 0.99**20] * 3, rtol=1e-5)


def test_without_tf_keras_the_line_says_what_they_need(processes: Processes) -> None:
    run = processes.run("--model=tests.support.models.small:LegacyLayers", f"--model_dir={processes.directory}/m")
    assert run.wait(60) == 2, run.output
    assert "is not available with Keras 3: install tf-keras and set TF_USE_LEGACY_KERAS=1 (" in run.lines[-1]
