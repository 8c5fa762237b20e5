"""The role of the aggregator: free, held, lost, and taken by another worker; without processes."""

from __future__ import annotations

import dataclasses

import pytest

from ps_train.cluster.membership.records import TaskState, task_key
from ps_train.cluster.membership.succession import Aggregator, NextAction, Succession, aggregator_key
from tests.support.status.tasks import task_status

LEASE = 10.0


class Rack:
    """A rack's records, read once a second by the worker `me`; the aggregator is worker:1."""

    def __init__(self) -> None:
        self.role: Aggregator | None = Aggregator("worker:1", "one", "h:1", "first", is_ready=True)
        self.holder = dataclasses.replace(task_status(), process_id="one")
        self.present, self.beats, self.now = True, True, 100.0
        self.me = Succession("r", "me", LEASE)
        self.pass_secs(1)

    def pass_secs(self, secs: int) -> Succession:
        for _ in range(secs):
            self.now += 1
            if self.beats:
                self.holder = dataclasses.replace(self.holder, heartbeat=self.holder.heartbeat + 1)
            found = {task_key("worker:1"): self.holder.to_json()} if self.present else {}
            if self.role is not None:
                found[aggregator_key("r")] = self.role.to_json()
            self.me.update(found, self.now)
        return self.me


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_a_free_role_is_taken(rack):
    rack.role = None
    assert rack.pass_secs(1).decide() == NextAction.CLAIM
    assert rack.me.role is None and rack.me.is_over("first")


def test_a_living_aggregator_is_used_when_it_is_ready(rack):
    assert rack.pass_secs(30).decide() == NextAction.USE
    assert not rack.me.is_over("first")
    rack.role = dataclasses.replace(rack.role, is_ready=False)
    assert rack.pass_secs(1).decide() == NextAction.WAIT


def test_a_silent_aggregator_is_replaced_after_its_lease_and_not_before(rack):
    rack.beats = False
    assert rack.pass_secs(10).decide() == NextAction.USE and not rack.me.is_over("first")
    assert rack.pass_secs(1).decide() == NextAction.CLAIM and rack.me.is_over("first")


def test_one_without_any_record_is_replaced_after_the_same_time(rack):
    rack.present = False
    assert rack.pass_secs(10).decide() == NextAction.USE
    assert rack.pass_secs(2).decide() == NextAction.CLAIM


@pytest.mark.parametrize("state", [TaskState.LEFT, TaskState.FAILED])
def test_one_that_has_left_is_replaced_at_once(rack, state):
    rack.holder = dataclasses.replace(rack.holder, state=state)
    assert rack.pass_secs(1).decide() == NextAction.CLAIM


def test_another_process_of_the_same_task_does_not_have_the_role(rack):
    rack.holder = dataclasses.replace(rack.holder, process_id="two", state=TaskState.PREPARING)
    assert rack.pass_secs(1).decide() == NextAction.USE, "the former process may still live"
    rack.holder = dataclasses.replace(rack.holder, state=TaskState.STARTING)
    assert rack.pass_secs(1).decide() == NextAction.CLAIM


@pytest.mark.parametrize("state", [TaskState.RECOVERING, TaskState.WAITING, TaskState.INPUT_ENDED])
def test_one_that_makes_no_steps_itself_keeps_the_role(rack, state):
    rack.holder = dataclasses.replace(rack.holder, state=state)
    assert rack.pass_secs(5).decide() == NextAction.USE


def test_a_new_term_ends_the_sessions_of_the_one_before(rack):
    rack.role = dataclasses.replace(rack.role, term="second")
    assert rack.pass_secs(1).is_over("first") and not rack.me.is_over("second")


def test_an_aggregator_that_lost_its_session_begins_a_new_term(rack):
    rack.role = dataclasses.replace(rack.role, process_id="me")
    rack.holder = dataclasses.replace(rack.holder, process_id="me")
    assert rack.pass_secs(1).decide("first") == NextAction.CLAIM
    assert rack.me.decide("another") == NextAction.USE


def test_the_death_of_the_one_before_does_not_end_the_new_term(rack):
    rack.beats = False
    rack.pass_secs(11)
    rack.me.set_role(Aggregator("worker:2", "me", "h:2", "second").to_json())
    assert not rack.me.is_over("second") and rack.me.is_over("first")


def test_time_in_which_no_record_could_be_read_does_not_count(rack):
    rack.beats = False
    rack.pass_secs(5)
    rack.now += 60
    assert rack.pass_secs(1).decide() == NextAction.USE
    assert rack.pass_secs(6).decide() == NextAction.CLAIM
