"""Whole jobs that compute in 16 bits."""

from __future__ import annotations

import json

from tests.support.machine.processes import Processes

STEEP = (
    "--model=tests.support.models.mixed:Steep",
    "--compute_dtype=float16",
    "--learning_rate=0.01",
    "--batch_size=4",
)
ONE = ("--num_workers=1", "--model_dir=m")


def result_of(processes: Processes) -> dict:
    return json.loads((processes.directory / "m/result.json").read_text())


def test_a_job_with_overflows_makes_exactly_its_updates_and_says_what_it_did(processes: Processes) -> None:
    run = processes.run(*STEEP, "--num_workers=2", "--model_dir=m", "--max_steps=60", "--steps_per_run=4")
    assert run.wait(110) == 0, run.output
    result = result_of(processes)
    assert result["global_step"] == 60 and result["examples"] == 240 and result["skipped"] >= 5
    assert result["loss_scale"] <= 2.0**15 and result["loss"] < 10_000
    assert "compute_dtype=float16: this CPU has" in run.output and "loss scale" in run.output
    assert f"{result['skipped']} gradients were skipped" in run.output


def test_examples_of_a_skipped_step_count_as_used_under_dynamic_sharding(processes: Processes) -> None:
    run = processes.run(*STEEP, *ONE, "--sharding=dynamic", "--epochs=1", "--model_arg=count=96")
    assert run.wait(110) == 0, run.output
    result = result_of(processes)
    assert result["skipped"] == 5 and result["loss_scale"] == 2.0**10
    assert result["examples"] + 4 * result["skipped"] == 96
    assert result["global_step"] == 96 / 4 - result["skipped"]


def test_a_model_that_does_not_compute_in_the_dtype_is_refused_before_any_step(processes: Processes) -> None:
    run = processes.run("--model=tests.support.models.small:Linear", "--compute_dtype=bfloat16", *ONE)
    assert run.wait(60) == 2, run.output
    assert "use the dtype of the variables" in run.output and "training from" not in run.output
