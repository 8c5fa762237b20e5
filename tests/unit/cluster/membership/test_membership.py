"""Membership of workers, decided from their statuses and times."""

from __future__ import annotations

from ps_train.cluster.membership.membership import Membership
from ps_train.cluster.membership.records import TaskState
from tests.support.status.tasks import worker_status

TASKS = ["worker:0", "worker:1", "worker:2"]


def membership():
    """May take 20 seconds to join and be silent for 10; all are there at 100."""
    made = Membership(TASKS, join_secs=20, lease_secs=10, now=100.0)
    assert made.update([worker_status(index) for index in range(3)], 100.0) == []
    return made


def told(changes):
    return [(change.task, change.present, change.reason) for change in changes]


class TestMembership:
    def test_a_worker_whose_heartbeat_grows_is_present(self):
        made = membership()
        for beat in range(10):
            assert made.update([worker_status(index, beat) for index in range(3)], 100.0 + 9 * beat) == []
        assert made.present == TASKS

    def test_a_worker_that_falls_silent_is_reported_once_and_is_back_with_its_next_heartbeat(self):
        made = membership()
        assert made.update([worker_status(0, 1), worker_status(1, 0), worker_status(2, 1)], 109.0) == []
        changes = made.update([worker_status(0, 2), worker_status(1, 0), worker_status(2, 2)], 110.5)
        assert told(changes) == [("worker:1", False, "has said nothing for 10s (heartbeat_timeout_secs)")]
        assert changes[0].location == "worker:1 on host-b, pid 41"
        assert made.present == ["worker:0", "worker:2"]
        assert made.update([worker_status(0, 3), worker_status(1, 0), worker_status(2, 3)], 111.0) == []
        assert told(made.update([worker_status(0, 4), worker_status(1, 1), worker_status(2, 4)], 111.5)) == [
            ("worker:1", True, "is back")
        ]
        assert made.present == TASKS

    def test_only_the_heartbeat_that_stood_still_is_that_of_a_silent_worker(self):
        made = membership()
        made.update([worker_status(0, 1), worker_status(1, 0, TaskState.INPUT_ENDED)], 110.5)
        assert made.is_silent(worker_status(1, 0)) and made.is_silent(worker_status(2, 0))
        assert not made.is_silent(worker_status(0, 1)), "it speaks"
        assert not made.is_silent(worker_status(1, 1)), "it has spoken since"
        assert not made.is_silent(worker_status(1, 0, process="second"))
        assert not made.is_silent(worker_status(3, 0)), "it is not known"

    def test_a_worker_that_does_not_join_in_time_is_reported_and_may_join_later(self):
        made = Membership(TASKS[:2], join_secs=20, lease_secs=10, now=100.0)
        assert made.update([worker_status(0)], 119.0) == []
        changes = made.update([worker_status(0, 1)], 120.5)
        assert told(changes) == [("worker:1", False, "has not joined within 20s (startup_timeout_secs)")]
        assert told(made.update([worker_status(0, 2), worker_status(1)], 121.0)) == [("worker:1", True, "has joined")]

    def test_a_worker_that_prepares_for_long_is_waited_for_and_its_joining_is_no_news(self):
        made = Membership(TASKS[:2], join_secs=20, lease_secs=10, now=100.0, is_open=True)
        for beat in range(20):
            preparing = [worker_status(index, beat, TaskState.PREPARING, process="told") for index in (1, 2)]
            assert made.update([worker_status(0, beat), *preparing], 100.0 + 5 * beat) == []
        assert made.present == TASKS[:2], "a task that nobody has declared takes part when it has joined"
        assert made.update([worker_status(0, 20), worker_status(1)], 201.0) == []

    def test_a_worker_without_input_takes_no_part_although_it_lives(self):
        made = membership()
        changes = made.update(
            [worker_status(0, 1), worker_status(1, 1, TaskState.INPUT_ENDED), worker_status(2, 1)], 101.0
        )
        assert told(changes) == [("worker:1", False, "has no input left")]
        assert (
            made.update([worker_status(0, 2), worker_status(1, 2, TaskState.INPUT_ENDED), worker_status(2, 2)], 102.0)
            == []
        )
        assert told(made.update([worker_status(0, 3), worker_status(1, 3), worker_status(2, 3)], 103.0)) == [
            ("worker:1", True, "is back")
        ]

    def test_an_undeclared_worker_is_reported_when_it_joins_and_leaves_if_others_may(self):
        made = Membership(TASKS[:1], join_secs=20, lease_secs=10, now=100.0, is_open=True)
        assert made.update([worker_status(0)], 101.0) == []
        assert told(made.update([worker_status(0, 1), worker_status(7)], 102.0)) == [("worker:7", True, "has joined")]
        assert (made.present, made.absent) == (["worker:0", "worker:7"], [])
        assert told(made.update([worker_status(0, 2), worker_status(7, 1, TaskState.LEFT)], 103.0)) == [
            ("worker:7", False, "has left")
        ]
        assert (made.present, made.absent) == (["worker:0"], ["worker:7"])

    def test_an_undeclared_worker_takes_no_part_if_others_may_not(self):
        made = membership()
        assert made.update([*(worker_status(index, 1) for index in range(3)), worker_status(7)], 101.0) == []
        assert made.present == TASKS

    def test_a_new_process_of_a_task_is_reported(self):
        made = membership()
        changes = made.update([worker_status(0, 1), worker_status(1, 0, process="second"), worker_status(2, 1)], 101.0)
        assert told(changes) == [("worker:1", True, "has taken the place of pid 41")]
        assert made.present == TASKS

    def test_time_in_which_no_task_could_be_heard_does_not_count(self):
        made = membership()
        made.extend_deadlines(30.0)
        assert made.update([worker_status(0, 1), worker_status(1, 0), worker_status(2, 1)], 135.0) == []
        changes = made.update([worker_status(0, 2), worker_status(1, 0), worker_status(2, 2)], 140.5)
        assert told(changes) == [("worker:1", False, "has said nothing for 10s (heartbeat_timeout_secs)")]
