"""The workers of a rack as one of them sees them: silent, ended, and without a session; without processes."""

from __future__ import annotations

import dataclasses

import pytest

from ps_train.cluster.membership.rack_peers import RackPeers
from ps_train.cluster.membership.records import TaskState
from ps_train.cluster.membership.succession import Aggregator, NextAction, aggregator_key
from ps_train.config.job import Job
from tests.support.status.tasks import store_of, task_status

LIMIT = 10.0
WORKERS = ("worker:0", "worker:1", "worker:2")


class Rack:
    """A rack of three workers, whose records worker:0 reads once a second; worker:1 is the aggregator."""

    def __init__(self) -> None:
        self.now = 100.0
        self.role = Aggregator("worker:1", "a process of worker:1", "h:1", "first", is_ready=True)
        self.statuses = {task: task_status(task) for task in WORKERS}
        job = Job(rack="a", update="sync", heartbeat_timeout_secs=LIMIT, startup_timeout_secs=30.0)
        self.peers = RackPeers(job, "a", WORKERS, "worker:0", "me", self.now)
        self.pass_secs(1)

    def pass_secs(self, secs: int, *silent: str) -> RackPeers:
        for _ in range(secs):
            self.now += 1
            for task, status in self.statuses.items():
                if task not in silent:
                    self.statuses[task] = dataclasses.replace(status, heartbeat=status.heartbeat + 1)
            found = store_of(*self.statuses.values()) | {aggregator_key("a"): self.role.to_json()}
            self.changes = self.peers.update(found, self.now)
        return self.peers

    def set_state(self, task: str, state: TaskState) -> None:
        self.statuses[task] = dataclasses.replace(self.statuses[task], state=state)


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_those_who_speak_are_waited_for(rack: Rack) -> None:
    assert not rack.pass_secs(60).absent
    assert rack.peers.decide() == (NextAction.USE, rack.role, rack.role.to_json())


def test_a_silent_worker_is_absent_after_the_heartbeats_time_and_comes_back(rack: Rack) -> None:
    assert not rack.pass_secs(10, "worker:2").absent
    assert rack.pass_secs(1, "worker:2").absent == ["worker:2"]
    assert [(change.task, change.present) for change in rack.changes] == [("worker:2", False)]
    assert not rack.pass_secs(1).absent
    assert [(change.task, change.present) for change in rack.changes] == [("worker:2", True)]


def test_an_aggregator_is_replaced_before_its_silence_makes_it_absent(rack: Rack) -> None:
    assert not rack.pass_secs(9, "worker:1").absent
    assert rack.peers.is_over("first"), "two seconds are left for the other one"
    assert rack.peers.decide().action == NextAction.CLAIM


def test_one_that_lives_without_a_session_is_left_out_and_not_this_one(rack: Rack) -> None:
    for task in ("worker:0", "worker:2"):
        rack.set_state(task, TaskState.RECOVERING)
    assert not rack.pass_secs(11).absent
    assert rack.pass_secs(1).absent == ["worker:2"]
    rack.set_state("worker:2", TaskState.TRAINING)
    assert not rack.pass_secs(1).absent
    rack.set_state("worker:2", TaskState.RECOVERING)
    assert not rack.pass_secs(10).absent, "its time begins anew"


def test_a_new_aggregator_waits_neither_for_the_former_one_nor_for_those_that_have_ended(rack: Rack) -> None:
    rack.set_state("worker:2", TaskState.LEFT)
    rack.pass_secs(1)
    assert rack.peers.gone("worker:1") == ["worker:1", "worker:2"]
    assert rack.peers.gone("") == ["worker:2"]
    assert rack.peers.gone("worker:0") == ["worker:2"], "it is itself the former one"


def test_the_own_record_counts_at_once(rack: Rack) -> None:
    rack.pass_secs(9, "worker:1")
    own = dataclasses.replace(rack.role, task="worker:0", process_id="me", term="second")
    rack.peers.set_role(own.to_json())
    assert not rack.peers.is_over("second") and rack.peers.is_over("first")
