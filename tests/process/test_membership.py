"""Workers leave, fall asleep and come back: real processes and signals, in the modes where others wait for them."""

from __future__ import annotations

import json
import signal
import socket

import pytest

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.processes import Process, Processes, TestCluster, eventually

ENDLESS = "--max_steps=100000000"
MODES = {"sync": "the quorum is now 1 of 2 workers", "bounded": "training continues with 1 of 2 workers"}

waiting_modes = pytest.mark.parametrize("update", ["sync", long("bounded")])


def cluster_of(processes: Processes, update: str, *flags: str, workers: int = 2) -> TestCluster:
    cluster = TestCluster(
        processes, 1, workers, f"--update={update}", "--log_secs=0.2", "--heartbeat_timeout_secs=2", *flags
    )
    cluster.flags.append("--model=tests.support.models.small:Paced")
    return cluster


def steps_shown(process: Process) -> list[int]:
    return [int(line.split()[1].split("/")[0]) for line in process.lines if line.startswith("step ")]


def goes_on(chief: Process) -> None:
    """The chief shows a later step than now."""
    now = max(steps_shown(chief))
    eventually(lambda: max(steps_shown(chief)) > now, 20, "progress")


@waiting_modes
def test_training_goes_on_without_a_worker_that_sleeps_or_is_killed_and_with_it_when_it_is_back(
    processes: Processes, update: str
) -> None:
    cluster = cluster_of(processes, update, ENDLESS)
    (ps,), (chief, worker) = cluster.start_all()
    chief.wait_for("step ")
    worker.send(signal.SIGSTOP)
    silence = f"worker:1 on {socket.gethostname()}, pid {worker.pid} has said nothing for 2s (heartbeat_timeout_secs); "
    chief.wait_for(silence + MODES[update], 20)
    goes_on(chief)
    worker.send(signal.SIGCONT)
    chief.wait_for(f"pid {worker.pid} is back", 20)
    goes_on(chief)
    worker.send(signal.SIGKILL)
    eventually(lambda: chief.output.count(silence + MODES[update]) == 2, 20, "the second absence")
    goes_on(chief)
    again = cluster.start("worker", 1, "--verbose")
    chief.wait_for(f"pid {again.pid} is back", 40)
    again.wait_for("first step at global step", 40)
    goes_on(chief)
    assert again.process.poll() is None
    chief.send(signal.SIGINT)
    for process in (again, chief, ps):
        assert process.wait(20) == 130, process.output


@pytest.mark.long
@waiting_modes
def test_a_worker_without_input_leaves_and_the_job_ends_with_all_of_its_steps(
    processes: Processes, update: str
) -> None:
    cluster = cluster_of(processes, update, "--max_steps=300", "--epochs=1", "--batch_size=4", "--shuffle_buffer=0")
    cluster.flags.append("--model=tests.support.models.small:Uneven")
    (ps,), (chief, worker) = cluster.start_all()
    for process in (chief, worker, ps):
        assert process.wait(60) == 0, process.output
    assert f"pid {worker.pid} has no input left; {MODES[update]}" in chief.output
    result = json.loads((cluster.model_dir / "result.json").read_text())
    assert result["global_step"] == 300
    assert 0 < result["waiting"]["share"] < 1


@pytest.mark.long
def test_a_job_ends_with_a_checkpoint_and_a_named_cause_when_too_few_workers_remain(processes: Processes) -> None:
    cluster = cluster_of(processes, "sync", ENDLESS, "--min_workers=2", "--save_secs=3600")
    (ps,), (chief, worker) = cluster.start_all()
    chief.wait_for("step ")
    worker.send(signal.SIGKILL)
    assert chief.wait(20) == 1
    assert (
        f"pid {worker.pid} has said nothing for 2s (heartbeat_timeout_secs): 1 of 2 workers remain" in chief.lines[-1]
    )
    assert "fewer than min_workers=2" in chief.lines[-1]
    assert checkpoints_in(str(cluster.model_dir))[0][0] >= max(steps_shown(chief))
    assert ps.wait(15) == 1


@pytest.mark.long
def test_with_a_backup_no_worker_waits_for_one_that_has_yet_to_come(processes: Processes) -> None:
    cluster = cluster_of(processes, "sync", ENDLESS, "--backup_workers=1", workers=3)
    servers = [cluster.start("ps", 0)]
    chief, worker = (cluster.start("worker", index) for index in range(2))
    chief.wait_for("step ", 60)
    goes_on(chief)
    chief.send(signal.SIGINT)
    for process in (chief, worker, *servers):
        assert process.wait(20) == 130, process.output


@pytest.mark.long
def test_without_a_backup_all_wait_for_it_but_no_longer_than_the_start_up_time_out(processes: Processes) -> None:
    cluster = cluster_of(processes, "sync", ENDLESS)
    cluster.flags.append("--startup_timeout_secs=8")
    (ps, chief) = cluster.start("ps", 0), cluster.start("worker", 0)
    chief.wait_for("worker:1 has not joined within 8s (startup_timeout_secs); the quorum is now 1 of 2 workers", 30)
    chief.wait_for("step ", 20)
    chief.send(signal.SIGINT)
    assert chief.wait(20) == 130 and ps.wait(20) == 130
