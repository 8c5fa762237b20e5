"""What goes wrong while a job runs ends the job, everywhere, with a named cause and the right exit code."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.processes import Processes, TestCluster

MODELS = "--model=tests.support.models.small:"


def test_an_exception_in_the_users_own_code_is_told_with_its_place_and_fails_the_whole_job(
    processes: Processes,
) -> None:
    run = processes.run(MODELS + "Raises", f"--model_dir={processes.directory}/m")
    assert run.wait(40) == 2
    assert (
        "forward() raised KeyError: 'my own mistake' (" in run.lines[-1]
        and ", in forward: raise KeyError(" in run.lines[-1]
    )
    assert "failed with exit code 2, and so the job failed: " in run.lines[-1] and "Traceback" not in run.output


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "cause"),
    [
        ("FailsLater", "InvalidArgumentError: assertion failed: [my own assertion]"),
        long("RunsOutOfMemory", "ResourceExhaustedError: OOM when allocating tensor"),
        long("RaisesLater", "ValueError: my first line"),
    ],
)
def test_an_operation_of_the_users_that_fails_later_is_named_once(processes: Processes, model: str, cause: str) -> None:
    run = processes.run(MODELS + model, f"--model_dir={processes.directory}/m", "--update=sync")
    assert run.wait(60) == 1
    assert cause in run.lines[-1] and "failed with exit code 1, and so the job failed: " in run.lines[-1]
    assert run.output.count(cause) == 1 and "got signal" not in run.output, run.output


def test_a_loss_that_is_no_number_stops_the_job_and_is_not_saved(processes: Processes) -> None:
    run = processes.run(MODELS + "Diverges", f"--model_dir={processes.directory}/m", "--save_steps=1")
    assert run.wait(40) == 1
    assert "not a finite number, on worker:" in run.output and "learning_rate" in run.output
    assert "Traceback" not in run.output
    newest = checkpoints_in(f"{processes.directory}/m")[0][1]
    reader = tf.train.load_checkpoint(newest)
    types = reader.get_variable_to_dtype_map()
    for name in (name for name, dtype in types.items() if dtype != tf.string):
        assert np.all(np.isfinite(reader.get_tensor(name))), f"{name} of the last checkpoint"


@pytest.mark.long
def test_a_loss_that_is_not_a_scalar_is_one_line_and_exit_code_2(processes: Processes) -> None:
    run = processes.run(MODELS + "Vector", f"--model_dir={processes.directory}/m")
    assert run.wait(40) == 2
    assert "not a scalar" in run.output and "tf.reduce_mean" in run.output and "Traceback" not in run.output


def test_the_first_failed_child_is_reported_as_the_cause_and_no_process_is_left(processes: Processes) -> None:
    run = processes.run("--max_steps=100000000", f"--model_dir={processes.directory}/m", "--log_secs=0.2")
    run.wait_for("step ")
    os.kill(min(run.descendants()), signal.SIGKILL)
    assert run.wait(30) == 1
    assert "ps:0 was ended by signal 9 (SIGKILL), and so the job failed" in run.lines[-1]
    assert not run.descendants()


@pytest.mark.parametrize("update", [long("async"), "sync"])
@pytest.mark.long
def test_a_ps_that_dies_is_named_by_every_worker(processes: Processes, update: str) -> None:
    cluster = TestCluster(processes, 2, 2, "--max_steps=100000000", "--log_secs=0.2", f"--update={update}")
    cluster.flags.append("--recovery_timeout_secs=3")
    servers, workers = cluster.start_all()
    workers[0].wait_for("step ")
    servers[1].send(signal.SIGKILL)
    for worker in workers:
        assert worker.wait(30) == 1, worker.output
        assert "ps:1" in worker.output and cluster.ps_hosts[1] in worker.output and "Traceback" not in worker.output
    assert servers[0].wait(15) == 1


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("bounded"), long("sync")])
def test_a_dead_chief_ends_the_job_within_bounds(processes: Processes, update: str) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=100000000", "--log_secs=0.2", "--recovery_timeout_secs=3")
    cluster.flags.append(f"--update={update}")
    (ps,), (chief, worker) = cluster.start_all()
    chief.wait_for("step ")
    chief.send(signal.SIGKILL)
    assert worker.wait(30) == 1
    assert "worker:0" in worker.output and "has said nothing for 3s" in worker.output
    assert ps.wait(15) == 1
    assert "worker:0" in ps.output


@pytest.mark.long
def test_a_ps_whose_workers_were_all_killed_gives_up(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 1, "--max_steps=100000000", "--log_secs=0.2", "--recovery_timeout_secs=3")
    (ps,), (worker,) = cluster.start_all()
    worker.wait_for("step ")
    worker.send(signal.SIGKILL)
    assert ps.wait(15) == 1
    assert "all of them are gone" in ps.output


@pytest.mark.long
def test_an_asynchronous_job_goes_on_without_a_worker_that_died_and_makes_all_its_steps(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=6000", "--log_secs=0.2", "--heartbeat_timeout_secs=2")
    (ps,), (chief, worker) = cluster.start_all()
    chief.wait_for("step ")
    worker.send(signal.SIGKILL)
    assert chief.wait(60) == 0, chief.output
    assert json.loads((cluster.model_dir / "result.json").read_text())["global_step"] == 6000
    assert ps.wait(10) == 0


@pytest.mark.long
def test_the_chief_waits_for_a_worker_that_hangs_only_so_long(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=3000", "--log_secs=0.2", "--heartbeat_timeout_secs=60")
    cluster.flags += ["--finish_timeout_secs=2", "--model=tests.support.models.small:Hangs", "--batch_size=4"]
    (ps,), (chief, worker) = cluster.start_all()
    assert chief.wait(60) == 0, chief.output
    assert "no longer waiting for worker:1" in chief.output and f"pid {worker.pid}" in chief.output
    result = json.loads((cluster.model_dir / "result.json").read_text())
    assert result["global_step"] < 3000 and f"at step {result['global_step']} of 3000" in chief.output
    assert ps.wait(10) == 0 and worker.wait(10) == 0
