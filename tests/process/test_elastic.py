"""--max_workers: workers that are in no host list join a running job, and leave it, as others do."""

from __future__ import annotations

import json
import signal
import socket

import pytest
import tensorflow as tf

from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Process, Processes, TestCluster, eventually

MAX_STEPS = 3000
LATE = 5
"""The index of the worker that joins."""


def cluster_of(processes: Processes, *flags: str) -> TestCluster:
    return TestCluster(
        processes, 1, 2, "--max_workers=16", "--batch_size=1", "--log_secs=0.2", "--heartbeat_timeout_secs=3", *flags
    )


def join(cluster: TestCluster, *flags: str) -> Process:
    """With the flags of all, but that it names itself."""
    own = f"--worker_hosts={LATE}=127.0.0.1:{free_ports(1)[0]}"
    return cluster.start("worker", LATE, own, "--num_workers=2", "--verbose", *flags)


def progresses(chief: Process) -> None:
    now = chief.lines[-1]
    eventually(lambda: chief.lines[-1] != now and chief.lines[-1].startswith("step "), 20, "progress")


@pytest.mark.long
def test_an_undeclared_worker_takes_part_and_leaves_and_every_update_is_made_once(
    processes: Processes,
) -> None:
    cluster = cluster_of(processes, f"--max_steps={MAX_STEPS}", "--model=tests.support.models.small:Counting")
    (ps,), (chief, worker) = cluster.start_all()
    late = join(cluster)
    chief.wait_for(f"worker:{LATE} on {socket.gethostname()}, pid {late.pid} has joined", 40)
    assert "training continues with 3 workers" in chief.output
    late.wait_for("first step at global step", 40)
    late.send(signal.SIGTERM)
    assert late.wait(20) == 0, late.output
    assert "it leaves the job (elastic)" in late.output
    chief.wait_for(f"pid {late.pid} has left; training continues with 2 workers", 20)
    for process in (chief, worker, ps):
        assert process.wait(60) == 0, process.output
    saved = tf.train.load_checkpoint(str(cluster.model_dir))
    assert saved.get_tensor("global_step") == MAX_STEPS
    assert {*saved.get_tensor("first")} == {*saved.get_tensor("second")} == {MAX_STEPS}
    of_each = json.loads((cluster.model_dir / "result.json").read_text())["staleness"]["per_worker"]
    assert sorted(of_each) == ["worker:0", "worker:1", f"worker:{LATE}"]
    assert sum(of_each[f"worker:{LATE}"]["histogram"].values()) > 0


@pytest.mark.long  # tests/cluster/test_elastic.py has the rounds, test_membership.py a kill under sync
@pytest.mark.parametrize("update", ["sync", "bounded"])
def test_others_wait_for_it_while_it_takes_part_and_no_longer_when_it_is_killed_or_has_left(
    processes: Processes, update: str
) -> None:
    cluster = cluster_of(
        processes, "--max_steps=10000000", "--model=tests.support.models.small:Counting", f"--update={update}"
    )
    (ps,), (chief, worker) = cluster.start_all()
    chief.wait_for("step ")
    late = join(cluster)
    late.wait_for("first step at global step", 40)
    progresses(chief)
    late.send(signal.SIGKILL)
    chief.wait_for(f"pid {late.pid} has said nothing for 3s", 20)
    progresses(chief)
    again = join(cluster)
    chief.wait_for(f"pid {again.pid} is back", 40)
    again.wait_for("first step at global step", 40)
    worker.send(signal.SIGTERM)  # one of those that were declared
    assert worker.wait(20) == 0, worker.output
    chief.wait_for(f"worker:1 on {socket.gethostname()}, pid {worker.pid} has left", 20)
    progresses(chief)
    chief.send(signal.SIGTERM)
    for process in (again, chief, ps):
        assert process.wait(20) == 143, process.output


def test_a_worker_that_does_not_say_how_many_were_declared_is_refused_with_both_numbers(processes: Processes) -> None:
    cluster = cluster_of(processes, "--max_steps=10000000", "--model=tests.support.models.small:Counting")
    cluster.start_all()[1][0].wait_for("step ")
    hosts = [*cluster.worker_hosts, f"127.0.0.1:{free_ports(1)[0]}"]
    late = cluster.start("worker", 2, f"--worker_hosts={','.join(hosts)}")
    assert late.wait(40) == 2
    assert "number of workers: 2 at the chief, 3 at worker:2" in late.lines[-1]
