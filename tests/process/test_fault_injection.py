"""--inject_fault: the faults that a user asks for happen, and the job ends as it must."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.processes import Process, Processes

COUNTING = ("--model=tests.support.models.small:Counting", "--batch_size=1", "--shuffle_buffer=0", "--log_secs=0.1")


def start(processes: Processes, *flags: str) -> Process:
    return processes.run(*COUNTING, *flags, f"--model_dir={processes.directory / 'model'}")


def result_of(processes: Processes, run: Process, within_secs: float = 100) -> dict[str, Any]:
    assert run.wait(within_secs) == 0, run.output
    assert not run.descendants()
    found: dict[str, Any] = json.loads((processes.directory / "model" / "result.json").read_text())
    return found


def counts(path: str) -> set[float]:
    reader = tf.train.load_checkpoint(path)
    return {*reader.get_tensor("first"), *reader.get_tensor("second")}


@pytest.mark.long
def test_a_ps_that_is_killed_and_a_worker_that_is_stopped_come_back_and_the_job_makes_all_its_steps(
    processes: Processes,
) -> None:
    inject = "--inject_fault=kill:ps:0@100,stop:worker:1@300+2s"
    run = start(processes, "--max_steps=600", inject, "--max_restarts=3", "--save_steps=50")
    result = result_of(processes, run)
    assert result["global_step"] == 600
    struck = dict(re.findall(r"ps_train: (\S+) strikes at step (\d+)", run.output))
    shown = [int(step) for step in re.findall(r"^step (\d+)/600", run.output, re.MULTILINE)]
    for fault, due in (("kill:ps:0@100", 100), ("stop:worker:1@300+2s", 300)):
        assert int(struck[fault]) == next(step for step in shown if step >= due)
    assert "ps:0 was ended by signal 9 (SIGKILL); it will restart" in run.output
    assert "ps:0 restarted; restored step" in run.output
    assert result["save"]["count"] >= 5 and 0 < result["save"]["hold_secs_mean"] <= result["save"]["hold_secs_max"]
    for step, path in checkpoints_in(str(processes.directory / "model")):
        assert counts(path) == {float(step)}


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_pushes_that_are_lost_are_counted_and_the_job_still_makes_exactly_its_steps(
    processes: Processes, update: str
) -> None:
    run = start(processes, "--num_ps=2", "--max_steps=300", "--inject_fault=drop_push:0.2", f"--update={update}")
    result = result_of(processes, run)
    assert result["global_step"] == 300
    pushes = 300 + result["dropped"] if update == "async" else 600
    assert 0.1 < result["dropped"] / pushes < 0.3
    assert counts(checkpoints_in(str(processes.directory / "model"))[0][1]) == {300.0}


@pytest.mark.long
def test_a_slow_worker_makes_fewer_steps_than_the_others(processes: Processes) -> None:
    run = start(processes, "--max_steps=500", "--inject_fault=slow:worker:1x6")
    result = result_of(processes, run)
    made = {name: sum(found["histogram"].values()) for name, found in result["staleness"]["per_worker"].items()}
    assert sum(made.values()) == result["global_step"] == 500
    assert made["worker:1"] < made["worker:0"] / 2


def test_outside_of_a_local_cluster_it_is_refused(processes: Processes) -> None:
    run = processes.run("--job_name=ps", "--task_index=0", "--inject_fault=kill:ps:0@3")
    assert run.wait(30) == 2
    assert "inject_fault=kill:ps:0@3 (from the command line) is for a cluster that one command starts" in run.lines[-1]
