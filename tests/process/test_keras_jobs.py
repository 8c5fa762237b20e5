"""A job by flags with a compiled Keras model: ps, workers, scores, export, and what another job begins with."""

from __future__ import annotations

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.keras.loading import load
from tests.support.long import long
from tests.support.machine.processes import Processes, TestCluster
from tests.support.models.keras_net import CLASSES, TEST, X, net

MODEL = "--model=tests.support.models.keras_net:net"


def end(cluster: TestCluster) -> list[str]:
    """Runs a job to its end; returns what its workers have printed."""
    servers, workers = cluster.start_all()
    for process in (*servers, *workers):
        assert process.wait(120) == 0, process.output
    return [line for worker in workers for line in worker.lines]


@pytest.mark.parametrize("update", ["sync", long("async")])
def test_a_compiled_model_is_trained_scored_and_exported(
    processes: Processes, update: str, tmp_path: pathlib.Path
) -> None:
    export = f"--export_dir={tmp_path / 'export'}"
    cluster = TestCluster(processes, 1, 2, MODEL, f"--update={update}", "--max_steps=100", "--verbose", export)
    lines = end(cluster)
    assert "shard 1 of 2 of the test data is scored" in lines
    network = net()
    assert load(network, str(cluster.model_dir)) >= 100
    expected = network.evaluate(X[:TEST], CLASSES[:TEST], verbose=0, return_dict=True)
    found = json.loads((cluster.model_dir / "result.json").read_text())["metrics"]
    assert found == {name: pytest.approx(value, rel=1e-4) for name, value in expected.items()}
    assert found["accuracy"] > 0.8
    served = tf.saved_model.load(str(tmp_path / "export" / "1")).signatures["serving_default"]
    outputs = served(features=tf.constant(X[:50]))["outputs"]
    np.testing.assert_allclose(outputs, network.predict(X[:50], verbose=0), atol=1e-5)


@pytest.mark.long
def test_a_job_begins_with_a_file_of_keras(processes: Processes, tmp_path: pathlib.Path) -> None:
    network = net()
    network.fit(X, CLASSES, verbose=0)
    network.save(tmp_path / "before.keras")
    flags = ("--max_steps=1", "--learning_rate=1e-9", f"--warm_start={tmp_path / 'before.keras'}")
    cluster = TestCluster(processes, 1, 1, MODEL, *flags)
    end(cluster)
    trained = net()
    load(trained, str(cluster.model_dir))
    for before, after in zip(network.trainable_weights, trained.trainable_weights, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-6)


@pytest.mark.long
def test_an_optimizer_that_has_trained_before_goes_on(processes: Processes, tmp_path: pathlib.Path) -> None:
    layers = [keras.layers.Dense(units, name=f"layer{index}") for index, units in enumerate((512, 512, 3))]
    network = keras.Sequential([keras.Input((6,)), *layers], name="net")
    network.compile(keras.optimizers.Nadam(0.002), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    given = {"x": X[TEST:], "y": CLASSES[TEST:], "batch_size": len(X) - TEST, "shuffle": False, "verbose": 0}
    network.fit(**given, epochs=5)
    network.save(path := tmp_path / "before.keras")
    flags = ("--max_steps=3", f"--batch_size={len(X) - TEST}", "--shuffle_buffer=0", f"--model_arg=path={path}")
    cluster = TestCluster(processes, 2, 1, "--model=tests.support.models.keras_net:loaded", "--update=sync", *flags)
    lines = end(cluster)
    assert any("kernel rows " in line for line in lines), lines  # the ps have parts of it
    trained = keras.models.load_model(path)
    load(trained, str(cluster.model_dir))
    network.fit(**given, epochs=3)
    for one, other in zip(
        network.weights + network.optimizer.variables, trained.weights + trained.optimizer.variables, strict=True
    ):
        if one is not network.optimizer.iterations:  # a job counts its own
            np.testing.assert_allclose(other, one, atol=1e-5, err_msg=one.path)
