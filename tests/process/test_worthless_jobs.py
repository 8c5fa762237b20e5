"""A job whose data make it worthless ends with an error that names them, not with 0; scoring always ends."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.long import long
from tests.support.machine.processes import Process, Processes
from tests.support.models.small import Linear


def run(processes: Processes, train: str, test: str, *flags: str) -> Process:
    data = ("--model=tests.support.data.bad:Data", f"--model_arg=train={train}", f"--model_arg=test={test}")
    model_dir = f"--model_dir={processes.directory}/model"
    return processes.run(*data, "--num_workers=1", "--max_steps=50", "--finish_timeout_secs=1", model_dir, *flags)


def result_of(processes: Processes) -> dict[str, object]:
    return json.loads((processes.directory / "model" / "result.json").read_text())


def error_of(process: Process) -> str:
    """The line that has the cause: of the program itself, or of the launcher."""
    causes = ("ps_train: error: ", "ps_train: worker:")
    return next(line for line in process.lines if line.startswith(causes) and "the last lines" not in line)


@pytest.mark.parametrize(
    ("train", "flags"),
    [
        ("none", ()),
        long("no_examples", ()),
        ("no_examples", ("--epochs=2", "--num_workers=2")),
        long("no_examples", ("--update=sync",)),
        long("nothing", ("--update=bounded",)),
        long("nothing", ("--sharding=dynamic",)),
    ],
)
def test_a_job_without_training_data_is_wrong_and_has_no_result(
    processes: Processes, train: str, flags: tuple[str, ...]
) -> None:
    job = run(processes, train, "arrays", f"--data_dir={processes.directory}", *flags)
    assert job.wait(60) == 2, job.output
    assert f"data('train', data_dir='{processes.directory}')" in error_of(job) and "check --data_dir" in error_of(job)
    assert "test labels" not in job.output and not (processes.directory / "model" / "result.json").exists()


@pytest.mark.long
def test_data_that_disappear_before_a_job_is_resumed_are_an_error_too(processes: Processes) -> None:
    assert run(processes, "arrays", "arrays").wait(60) == 0
    resumed = run(processes, "no_examples", "arrays", "--max_steps=100")
    assert resumed.wait(60) == 2, resumed.output
    assert "data('train', data_dir='') has no examples" in error_of(resumed)


@pytest.mark.long
def test_a_test_split_without_examples_has_no_score(processes: Processes) -> None:
    for test, times in (("none", 2), ("no_examples", 1)):
        job = run(processes, "arrays", test, "--ignore_checkpoints")
        assert job.wait(60) == 0, job.output
        warnings = [line for line in job.lines if "data('test', data_dir='') has no examples" in line]
        assert len(warnings) == times and "test labels" not in job.output
        assert result_of(processes)["metrics"] == {}


@pytest.mark.parametrize(
    ("train", "test", "flags", "text"),
    [
        ("arrays", "repeated", (), "data('test', data_dir='') returned a dataset that repeats itself"),
        long("repeated", "arrays", ("--epochs=2",), "epochs=2 would never end"),
        ("batched", "arrays", (), "data('train', data_dir='') returned a dataset that is batched already"),
    ],
)
def test_data_that_cannot_be_right_are_refused_before_training(
    processes: Processes, train: str, test: str, flags: tuple[str, ...], text: str
) -> None:
    job = run(processes, train, test, *flags)
    assert job.wait(60) == 2, job.output
    assert text in error_of(job) and "from data()" in error_of(job)
    assert "step " not in job.output


def test_data_that_repeat_themselves_are_trained_on_until_max_steps(processes: Processes) -> None:
    job = run(processes, "repeated", "arrays")
    assert job.wait(60) == 0, job.output
    assert result_of(processes)["global_step"] == 50


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, long(3)])
def test_a_test_split_that_does_not_end_is_scored_for_a_limited_time(processes: Processes, workers: int) -> None:
    began = time.monotonic()
    job = run(processes, "arrays", "endless", f"--num_workers={workers}", "--finish_timeout_secs=2")
    assert job.wait(80) == 0, job.output
    assert "(finish_timeout_secs): the metrics are of these examples; remove .repeat()" in job.output
    seconds = float(job.output.split("did not end within ")[1].split(" examples and ")[1].split("s (")[0])
    assert 2 <= seconds <= time.monotonic() - began
    labels = Linear().data("test", "").labels
    assert result_of(processes)["metrics"] == {"labels": pytest.approx(float(labels.mean()), abs=0.02)}
