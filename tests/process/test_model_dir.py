"""A model_dir belongs to one living job; its checkpoints are neither lost nor passed over silently."""

from __future__ import annotations

import json
import pathlib
import signal

import pytest
import tensorflow as tf

from tests.support.machine.processes import Process, Processes, TestCluster, eventually

SHORT = ("--num_ps=1", "--num_workers=1", "--model=tests.support.models.small:Linear")


def error_of(process: Process) -> str:
    """The line of the launcher that has the cause."""
    return next(line for line in process.lines if line.startswith("ps_train: worker:0 failed with exit code 2"))


def steps_in(directory: pathlib.Path) -> set[int]:
    return {int(name.rpartition("-")[2].removesuffix(".index")) for name in map(str, directory.glob("*.index"))}


def test_a_second_job_in_the_directory_of_a_living_one_is_refused_and_told_the_holder(processes: Processes) -> None:
    directory = processes.directory / "model"
    first = processes.run(*SHORT, f"--model_dir={directory}", "--max_steps=100000000", "--log_secs=0.2")
    first.wait_for("step ")
    holder = json.loads((directory / "lock.json").read_text())
    second = processes.run(*SHORT, f"--model_dir={directory}", "--max_steps=10")
    assert second.wait(40) == 2, second.output
    assert f"model_dir={directory} is in use by worker:0 on {holder['host']}, pid {holder['pid']}" in error_of(second)
    assert holder["pid"] in first.descendants() and first.process.poll() is None
    first.send(signal.SIGTERM)
    assert first.wait(40) == 143
    assert not (directory / "lock.json").exists()


def test_a_chief_that_was_killed_is_restarted_at_once_and_says_whose_lock_it_took(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 1, "--max_steps=100000000", "--heartbeat_timeout_secs=50", "--log_secs=0.2")
    cluster.start("ps", 0)
    chief = cluster.start("worker", 0)
    chief.wait_for("step ")
    chief.send(signal.SIGKILL)
    again = cluster.start("worker", 0)
    again.wait_for("the ps still hold the model", 25)
    assert f"is taken over: worker:0 on {json.loads((cluster.model_dir / 'lock.json').read_text())['host']}, pid" in (
        again.output
    )
    again.wait_for("step ", 25)


def test_checkpoints_that_cannot_be_read_are_refused_until_they_are_ignored_and_then_kept(processes: Processes) -> None:
    directory = processes.directory / "model"
    flags = (*SHORT, f"--model_dir={directory}", "--save_steps=10")
    assert processes.run(*flags, "--max_steps=20").wait(60) == 0
    before = steps_in(directory)
    for data in directory.glob("model.ckpt-*.data-*"):
        data.write_bytes(b"x")
    damaged = {file.name: file.read_bytes() for file in directory.glob("model.ckpt-*")}
    refused = processes.run(*flags, "--max_steps=40")
    assert refused.wait(60) == 2, refused.output
    assert "model.ckpt-20 is damaged" in error_of(refused) and "--ignore_checkpoints" in error_of(refused)
    assert {file.name: file.read_bytes() for file in directory.glob("model.ckpt-*")} == damaged
    ignoring = processes.run(*flags, "--max_steps=30", "--ignore_checkpoints")
    assert ignoring.wait(60) == 0, ignoring.output
    assert f"they are now in {directory}/ignored-1; training starts at step 0" in ignoring.output
    moved = {file.name: file.read_bytes() for file in (directory / "ignored-1").glob("model.ckpt-*")}
    assert moved == damaged and steps_in(directory / "ignored-1") == before
    result = json.loads((directory / "result.json").read_text())
    assert (result["global_step"], result["examples"]) == (30, 30 * 32)
    resumed = processes.run(*flags, "--max_steps=40")
    assert resumed.wait(60) == 0, resumed.output
    assert "at step 30" in resumed.output


@pytest.mark.long
def test_a_directory_with_the_characters_of_a_pattern_works_for_every_role(processes: Processes) -> None:
    directory, export = processes.directory / "a [new]*run?", processes.directory / "export"
    flags = (f"--model_dir={directory}", "--num_ps=2", "--num_workers=1", "--save_steps=20", "--keep_checkpoints=2")
    assert processes.run(*flags, "--max_steps=100").wait(60) == 0
    resumed = processes.run(*flags, "--max_steps=200", f"--export_dir={export}")
    assert resumed.wait(60) == 0, resumed.output
    assert "resumed from" in resumed.output and "damaged" not in resumed.output
    assert len(steps_in(directory)) == 2 and max(steps_in(directory)) == 200
    evaluator = processes.run("--job_name=evaluator", f"--model_dir={directory}", "--max_steps=200")
    assert evaluator.wait(60) == 0, evaluator.output
    assert "evaluation at step 200: accuracy" in evaluator.output
    exported = eventually(lambda: [file.parent for file in export.rglob("saved_model.pb")], 5, "the export")
    assert tf.saved_model.load(str(exported[0])).signatures["serving_default"]


def test_flags_without_effect_are_named_once_each(processes: Processes) -> None:
    flags = (
        f"--model_dir={processes.directory}/model",
        "--max_steps=5",
        "--task_index=1",
        f"--data_dir={processes.directory}",
    )
    job = processes.run(*SHORT, *flags, "--max_restarts=1")
    assert job.wait(60) == 0, job.output
    warnings = [line for line in job.lines if "has no effect" in line]
    assert len(warnings) == 2, job.output
    assert "task_index=1 (from the command line) has no effect" in warnings[0]
    assert f"data_dir={processes.directory} (from the command line) has no effect" in warnings[1]
