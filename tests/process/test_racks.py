"""Workers in racks, as real processes: one that adds up the gradients of its rack is killed, and another one does."""

from __future__ import annotations

import dataclasses
import json
import signal
import time

import pytest

from ps_train.base.errors import UnreachableError
from ps_train.cluster.membership.records import TaskStatus, task_key
from ps_train.cluster.membership.succession import Aggregator, aggregator_key
from ps_train.config.job import Job
from ps_train.training.duties.rack_member import RackMember
from tests.process.test_status import address_of, get
from tests.support.long import long
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Process, Processes, TestCluster, eventually
from tests.support.status.tasks import task_status

HEARTBEAT_SECS, LONG_SECS, LOAD_SECS = 3, 30, 15
"""Heartbeats, and the seconds that a busy machine may need more than an idle one."""


def cluster_of(processes: Processes, *flags: str, num_workers: int = 4) -> TestCluster:
    own = ["--update=sync", "--log_secs=0.2", f"--heartbeat_timeout_secs={HEARTBEAT_SECS}", *flags]
    cluster = TestCluster(processes, 2, num_workers, *own)
    cluster.flags.append("--model=tests.support.models.small:Paced")
    return cluster


RACKS = {"127.0.0.1": "a", "worker:2": "b", "worker:3": "b"}


def steps_shown(process: Process) -> int:
    return max((int(line.split()[1].split("/")[0]) for line in process.lines if line.startswith("step ")), default=0)


def terms(workers: list[Process], rack: str) -> list[int]:
    """The workers that have taken the role in a rack, each as often as it has."""
    text = f"adds up the gradients of rack {rack} now"
    return [index for index, worker in enumerate(workers) for line in worker.lines if text in line]


def successor(workers: list[Process], rack: str, before: list[int]) -> int:
    """The worker that takes the role now, after those of `before`."""

    def found() -> list[int]:
        now = terms(workers, rack)
        return [index for index in now if now.count(index) > before.count(index)]

    return eventually(found, 40, "another aggregator")[-1]


def goes_on(chief: Process, within_secs: float = 40) -> None:
    now = steps_shown(chief)
    eventually(lambda: steps_shown(chief) > now, within_secs, "progress")


@pytest.mark.parametrize("victim", [long("aggregator"), long("both workers"), long("stopped")])
def test_the_aggregator_of_a_rack_is_killed_and_another_one_goes_on(processes: Processes, victim: str) -> None:
    path = processes.directory / "racks.json"
    path.write_text(json.dumps(RACKS))
    cluster = cluster_of(processes, "--max_steps=100000000", f"--rack_file={path}")
    ps, workers = cluster.start_all()
    chief = workers[0]
    chief.wait_for("step ", 60)
    (index,) = terms(workers, "b")
    assert not any("warning: " in line and "adds up" in line for worker in workers for line in worker.lines)
    assert index in (2, 3)
    other = 5 - index
    workers[index].send(signal.SIGSTOP if victim == "stopped" else signal.SIGKILL)
    if victim == "both workers":
        workers[other].send(signal.SIGKILL)
        chief.wait_for("the quorum is now 2 of 4 workers", 40)
    else:
        taken = f"worker:{other} adds up the gradients of rack b now, instead of worker:{index}"
        workers[other].wait_for(taken, HEARTBEAT_SECS + LOAD_SECS)
    goes_on(chief)
    if victim == "stopped":
        workers[index].send(signal.SIGCONT)
        chief.wait_for(f"pid {workers[index].pid} is back", 40)
    else:
        workers[index] = cluster.start("worker", index, "--verbose")  # perhaps before the chief has missed it
        workers[index].wait_for("first step at global step", 60)
    goes_on(chief)
    chief.send(signal.SIGINT)
    alive = [w for i, w in enumerate(workers) if victim != "both workers" or i != other]
    for process in [*alive, *ps]:
        assert process.wait(30) == 130, process.output


@pytest.mark.long
def test_aggregators_that_exit_one_after_the_other_are_replaced_before_the_heartbeat_misses_them(
    processes: Processes,
) -> None:
    flags = ("--max_steps=100000000", f"--heartbeat_timeout_secs={LONG_SECS}")
    cluster = cluster_of(processes, *flags, num_workers=4)
    ps = [cluster.start("ps", index) for index in range(2)]
    workers = [cluster.start("worker", index, f"--rack={rack}") for index, rack in enumerate("abbb")]
    chief = workers[0]
    chief.wait_for("step ", 60)
    before = terms(workers, "b")
    dead = list(before)
    for _ in range(2):
        began = time.monotonic()
        workers[dead[-1]].send(signal.SIGKILL)
        dead.append(successor(workers, "b", before))
        before = terms(workers, "b")
        goes_on(chief, LOAD_SECS)
        assert time.monotonic() - began < LONG_SECS - 5
    assert len(set(dead)) == 3
    for index in dead[:2]:
        workers[index] = cluster.start("worker", index, "--rack=b", "--verbose")
    for index in dead[:2]:
        workers[index].wait_for("first step at global step", 60)
    goes_on(chief)
    chief.send(signal.SIGINT)
    for process in [*workers, *ps]:
        assert process.wait(30) == 130, process.output


@pytest.mark.long
def test_a_job_whose_workers_each_know_their_rack_ends_with_exactly_its_steps_and_examples(
    processes: Processes,
) -> None:
    port = free_ports(1)[0]
    cluster = cluster_of(processes, "--max_steps=40", "--batch_size=8", f"--rack_port={port}", num_workers=3)
    ps = [cluster.start("ps", index, f"--rack={rack}") for index, rack in enumerate("ab")]
    workers = [cluster.start("worker", index, f"--rack={rack}") for index, rack in enumerate("aba")]
    for process in [*workers, *ps]:
        assert process.wait(120) == 0, process.output
    result = json.loads((cluster.model_dir / "result.json").read_text())
    assert result["global_step"] == 40
    assert result["examples"] == 40 * 8 * 3
    assert set(result["waiting"]["per_worker"]) == {"rack a", "rack b"}


@pytest.mark.long
def test_a_worker_that_comes_back_in_another_rack_keeps_its_place(processes: Processes) -> None:
    cluster = cluster_of(processes, "--max_steps=100000000", "--status_port=0")
    ps = [cluster.start("ps", index, f"--rack={rack}") for index, rack in enumerate("ab")]
    workers = [cluster.start("worker", index, f"--rack={rack}") for index, rack in enumerate("aabb")]
    workers[0].wait_for("step ", 60)
    core = get(address_of(workers[0]))["core"]
    assert core["flat_bytes_per_step"] == 2 * core["bytes_per_step"] > 0
    workers[3].send(signal.SIGKILL)
    workers[3] = cluster.start("worker", 3, "--rack=a", "--verbose")
    workers[3].wait_for("rack=a (from the command line), but worker:3 stays in rack b, its place in the running", 60)
    workers[3].wait_for("first step at global step", 60)
    goes_on(workers[0])
    workers[0].send(signal.SIGINT)
    for process in [*workers, *ps]:
        assert process.wait(30) == 130, process.output


class Store(dict[str, str]):
    """The records of ps 0."""

    def items(self):
        aggregator = TaskStatus.from_json(self[task_key("worker:1")])
        self[task_key("worker:1")] = dataclasses.replace(aggregator, heartbeat=aggregator.heartbeat + 1).to_json()
        return dict(self)


def test_a_worker_that_cannot_reach_a_living_aggregator_gives_up_in_one_line() -> None:
    (port,) = free_ports(1)
    role = Aggregator("worker:1", "one", f"127.0.0.1:{port}", "first", is_ready=True)
    status = dataclasses.replace(task_status(), task="worker:1", process_id="one")
    store = Store({task_key("worker:1"): status.to_json(), aggregator_key("a"): role.to_json()})
    job = Job(rack="a", update="sync", recovery_timeout_secs=0.5)
    member = RackMember(job, "a", ("worker:0", "worker:1"), "worker:0", "h", 0, "me", store, lambda: False)
    with pytest.raises(UnreachableError) as caught:
        member.join()
    assert str(caught.value) == (
        f"gave up after 0.5s (recovery_timeout_secs): worker:0 cannot reach worker:1 at 127.0.0.1:{port}, which adds "
        "up the gradients of rack a: connection refused; open this port between the hosts of the rack (--rack_port "
        "gives it a number)."
    )
