"""The programs of examples/keras train as one ps and two workers, to results that only training gives."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest

from tests.support.machine.processes import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

PROGRAMS = ROOT / "examples" / "keras"


@pytest.fixture
def train(processes):
    """Runs an example, under `python -m ps_train run` or by itself; returns its process when it has ended."""

    def call(name, is_run):
        run = ["-m", "ps_train", "run", "--num_ps=1", "--num_workers=2"] if is_run else []
        program = processes.command([sys.executable, *run, str(PROGRAMS / f"{name}.py")])
        assert program.wait(350) == 0, program.output
        assert not program.descendants()
        program.directory = processes.directory
        return program

    return call


def number_after(text, output):
    """The numbers after a text, of all workers: they have one model."""
    found = {float(value) for value in re.findall(rf"{text}:? ([\d.]+)", output)}
    assert len(found) == 1, output
    return found.pop()


def epochs_of(program):
    """The epochs that Keras has shown: the chief alone shows them."""
    return re.findall(r"Epoch (\d+/\d+)", program.output)


def test_a_perceptron_for_digits(train):
    program = train("digits", is_run=True)
    assert epochs_of(program) == [f"{epoch}/5" for epoch in range(1, 6)]
    assert number_after("test accuracy", program.output) > 0.93


def test_a_sequential_model_for_ten_epochs(train):
    program = train("sequential", is_run=False)
    assert epochs_of(program)[0] == "1/10"
    assert number_after("best val_accuracy", program.output) > 0.8
    assert (program.directory / "sequential.keras").exists()


def test_a_convolutional_network_with_steps_per_epoch(train):
    program = train("images", is_run=True)
    assert epochs_of(program) == ["1/3", "2/3", "3/3"]
    assert number_after("test accuracy", program.output) > 0.5


def test_a_mirrored_strategy_with_validation_data(train):
    program = train("mirrored", is_run=True)
    assert "[worker:0] recorded learning_rate loss mae val_loss val_mae" in program.lines
    assert number_after("test mse", program.output) < 0.1


def test_a_recommendation_with_a_checkpoint_manager(train):
    program = train("recommend", is_run=True)
    assert "[worker:0] newest checkpoint checkpoints/ckpt-6" in program.lines
    kept = sorted(path.name for path in (program.directory / "checkpoints").glob("*.index"))
    assert kept == [f"ckpt-{epoch}.index" for epoch in range(2, 7)]
    losses = [float(value) for value in re.findall(r"loss: ([\d.]+)", program.output)]
    assert losses[-1] < losses[0]


def test_a_policy_of_mixed_precision(train):
    program = train("mixed_precision", is_run=True)
    assert "[worker:0] computes bfloat16 keeps float32" in program.lines
    assert number_after("test accuracy", program.output) > 0.85


def test_a_random_search(train):
    program = train("random_search", is_run=False)
    losses = [float(value) for value in re.findall(r": loss ([\d.]+)", program.output)]
    assert len(losses) == 2
    assert number_after("best: .* loss", program.output) == min(losses) < 5


@pytest.mark.skipif(importlib.util.find_spec("keras_tuner") is None, reason="needs keras-tuner")
def test_a_search_by_keras_tuner(train):
    program = train("tuner", is_run=False)
    assert re.search(r"^best \{'units': \d+", program.output, re.MULTILINE)
