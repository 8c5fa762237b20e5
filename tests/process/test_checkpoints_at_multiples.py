"""Checkpoints by steps are at multiples, whatever the update mode, however many workers, and after a resume."""

from __future__ import annotations

import signal

import pytest

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.support.long import long
from tests.support.machine.processes import Processes, TestCluster, eventually

COUNTING = (
    "--model=tests.support.models.small:Counting",
    "--batch_size=1",
    "--shuffle_buffer=0",
    "--keep_checkpoints=100",
)


@pytest.mark.parametrize(
    "update",
    [
        long("--update=async"),
        long("--update=bounded --max_steps_ahead=0"),
        long("--update=sync"),
        long("--update=async --sharding=dynamic"),
        "--update=sync --backup_workers=1",
        "--update=sync --local_steps=8",
        long("--update=async --local_steps=8"),
        long("--update=bounded --local_steps=8 --sharding=dynamic"),
        long("--update=sync --local_steps=8 --backup_workers=1"),
        long("--update=sync --local_steps=8 --outer_optimizer=elastic"),
    ],
)
def test_checkpoints_are_at_multiples_with_several_workers(processes: Processes, update: str) -> None:
    cluster = TestCluster(processes, 1, 3, *COUNTING, "--max_steps=77", "--save_steps=30", *update.split())
    servers, workers = cluster.start_all()
    for process in (*workers, *servers):
        assert process.wait(120) == 0, process.output
    steps = sorted(step for step, _ in checkpoints_in(str(cluster.model_dir)))
    assert steps[-1] == 77 and len(steps) > 2 and all(step % 30 == 0 for step in steps[:-1]), steps


@pytest.mark.long
def test_workers_wait_no_longer_for_a_frozen_chief_than_the_heartbeat_timeout(processes: Processes) -> None:
    slow = ("--model=tests.support.models.small:SlowCounting", *COUNTING[1:], "--heartbeat_timeout_secs=2")
    cluster = TestCluster(processes, 1, 2, *slow, "--max_steps=200", "--save_steps=10")
    servers, (chief, worker) = cluster.start_all()
    eventually(lambda: checkpoints_in(str(cluster.model_dir))[:1] > [(20, "")], 60, "some checkpoints")
    chief.send(signal.SIGSTOP)
    worker.wait_for("makes steps without waiting for checkpoints until the chief answers", 20)
    chief.send(signal.SIGCONT)
    for process in (chief, worker, *servers):
        assert process.wait(60) == 0, process.output
    steps = sorted(step for step, _ in checkpoints_in(str(cluster.model_dir)))
    assert steps[-1] == 200
