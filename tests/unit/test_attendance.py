"""Who takes part: decided from seats and times, without processes."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from ps_train.cluster.spec import Cluster
from ps_train.config.job import Job
from ps_train.coordination.membership import Membership
from ps_train.coordination.membership_monitor import BackgroundTask, MembershipMonitor
from ps_train.coordination.records import TaskState, TaskStatus
from ps_train.coordination.stall_detector import StallDetector
from ps_train.errors import ConfigError, TooFewWorkersError

TASKS = ["worker:0", "worker:1", "worker:2"]


def seat(index, beat=0, state=TaskState.TRAINING, holder="first"):
    return TaskStatus(
        f"worker:{index}", process_id=f"{holder} {index}", host="host-b", pid=40 + index, state=state, heartbeat=beat
    )


def attendance():
    """May take 20 seconds to join and be silent for 10; all are there at 100."""
    made = Membership(TASKS, join_secs=20, lease_secs=10, now=100.0)
    assert made.update([seat(index) for index in range(3)], 100.0) == []
    return made


def told(changes):
    return [(change.task, change.present, change.reason) for change in changes]


class TestAttendance:
    def test_who_beats_is_present(self):
        made = attendance()
        for beat in range(10):
            assert made.update([seat(index, beat) for index in range(3)], 100.0 + 9 * beat) == []
        assert made.present == TASKS

    def test_who_falls_silent_is_told_once_and_is_back_when_it_beats_again(self):
        made = attendance()
        assert made.update([seat(0, 1), seat(1, 0), seat(2, 1)], 109.0) == []
        changes = made.update([seat(0, 2), seat(1, 0), seat(2, 2)], 110.5)
        assert told(changes) == [("worker:1", False, "has said nothing for 10s (heartbeat_timeout_secs)")]
        assert changes[0].location == "worker:1 on host-b, pid 41"
        assert made.present == ["worker:0", "worker:2"]
        assert made.update([seat(0, 3), seat(1, 0), seat(2, 3)], 111.0) == []
        assert told(made.update([seat(0, 4), seat(1, 1), seat(2, 4)], 111.5)) == [("worker:1", True, "is back")]
        assert made.present == TASKS

    def test_who_does_not_come_in_time_is_told_and_may_come_later(self):
        made = Membership(TASKS[:2], join_secs=20, lease_secs=10, now=100.0)
        assert made.update([seat(0)], 119.0) == []
        changes = made.update([seat(0, 1)], 120.5)
        assert told(changes) == [("worker:1", False, "has not joined within 20s (startup_timeout_secs)")]
        assert told(made.update([seat(0, 2), seat(1)], 121.0)) == [("worker:1", True, "has joined")]

    def test_who_has_no_input_left_takes_no_part_although_it_beats(self):
        made = attendance()
        changes = made.update([seat(0, 1), seat(1, 1, TaskState.INPUT_ENDED), seat(2, 1)], 101.0)
        assert told(changes) == [("worker:1", False, "has no input left")]
        assert made.update([seat(0, 2), seat(1, 2, TaskState.INPUT_ENDED), seat(2, 2)], 102.0) == []
        assert told(made.update([seat(0, 3), seat(1, 3), seat(2, 3)], 103.0)) == [("worker:1", True, "is back")]

    def test_whom_nobody_expects_is_told_when_it_joins_and_leaves_if_others_may(self):
        made = Membership(TASKS[:1], join_secs=20, lease_secs=10, now=100.0, is_open=True)
        assert made.update([seat(0)], 101.0) == []
        assert told(made.update([seat(0, 1), seat(7)], 102.0)) == [("worker:7", True, "has joined")]
        assert (made.present, made.absent) == (["worker:0", "worker:7"], [])
        assert told(made.update([seat(0, 2), seat(7, 1, TaskState.LEFT)], 103.0)) == [("worker:7", False, "has left")]
        assert (made.present, made.absent) == (["worker:0"], ["worker:7"])

    def test_whom_nobody_expects_takes_no_part_if_others_may_not(self):
        made = attendance()
        assert made.update([*(seat(index, 1) for index in range(3)), seat(7)], 101.0) == []
        assert made.present == TASKS

    def test_a_new_process_in_a_seat_is_told(self):
        made = attendance()
        changes = made.update([seat(0, 1), seat(1, 0, holder="second"), seat(2, 1)], 101.0)
        assert told(changes) == [("worker:1", True, "has taken the place of pid 41")]
        assert made.present == TASKS

    def test_time_in_which_nobody_could_be_heard_does_not_count(self):
        made = attendance()
        made.extend_deadlines(30.0)
        assert made.update([seat(0, 1), seat(1, 0), seat(2, 1)], 135.0) == []
        changes = made.update([seat(0, 2), seat(1, 0), seat(2, 2)], 140.5)
        assert told(changes) == [("worker:1", False, "has said nothing for 10s (heartbeat_timeout_secs)")]


JOB = Job(ps_hosts=("a:1",), worker_hosts=("a:2", "a:3", "a:4"), heartbeat_timeout_secs=10.0)


def members(now=100.0, run=lambda work: work(), **fields):
    job = Job(**{"ps_hosts": JOB.ps_hosts, "worker_hosts": JOB.worker_hosts, **fields})
    made = MembershipMonitor(job, Cluster.of(job), now, run)
    made.update([seat(index) for index in range(3)], now)
    return made


class TestMembers:
    @pytest.mark.parametrize(
        ("fields", "rest"),
        [
            ({"update": "sync"}, "the quorum is now 2 of 3 workers"),
            ({"update": "sync", "backup_workers": 1}, "the quorum is now 1 of 3 workers"),
            ({"update": "async"}, "training goes on with 2 of 3 workers"),
            ({"update": "bounded"}, "training goes on with 2 of 3 workers"),
        ],
    )
    def test_it_is_said_aloud_who_has_left_why_and_who_remains(self, fields, rest, caplog):
        with caplog.at_level(logging.WARNING, "ps_train"):
            logging.getLogger("ps_train").propagate = True
            members(**fields).update([seat(0, 1), seat(1, 0), seat(2, 1)], 111.0)
        assert caplog.messages == [
            f"worker:1 on host-b, pid 41 has said nothing for 10s (heartbeat_timeout_secs); {rest}",
        ]

    def test_those_who_left_are_dismissed_at_every_look_until_they_are_back(self):
        made, dismissed = members(), []
        made.update([seat(0, 1), seat(1, 0), seat(2, 1)], 111.0)  # there is no session yet
        made.remove_replica = dismissed.append
        for beat in (2, 3):
            made.update([seat(0, beat), seat(1, 0), seat(2, beat)], 112.0)
        assert dismissed == [1, 1]
        made.update([seat(0, 4), seat(1, 1), seat(2, 4)], 113.0)
        assert dismissed == [1, 1]

    def test_fewer_than_min_workers_are_an_error_that_names_who_left(self):
        made = members(min_workers=2)
        assert made.update([seat(0, 1), seat(1, 0), seat(2, 1)], 111.0) is None
        error = made.update([seat(0, 2), seat(1, 0), seat(2, 2, TaskState.INPUT_ENDED)], 112.0)
        assert isinstance(error, TooFewWorkersError)
        assert str(error) == (
            "worker:2 on host-b, pid 42 has no input left: 1 of 3 workers remain, fewer than min_workers=2"
        )

    def test_it_is_said_when_all_wait_for_one_who_lives_but_makes_no_steps(self, caplog):
        made = members(update="sync")
        made.awaited = lambda: (7, [1])
        with caplog.at_level(logging.WARNING, "ps_train"):
            logging.getLogger("ps_train").propagate = True
            for beat in range(1, 50):
                made.update([seat(index, beat) for index in range(3)], 100.0 + beat)
        assert caplog.messages == ["no update since step 7, for 30s: all wait for worker:1"]

    def test_the_ps_are_asked_for_whom_others_wait_every_five_seconds_only(self):
        made, asked = members(update="sync"), []
        for beat in range(1, 25):
            made.awaited = lambda beat=beat: asked.append(beat)
            made.update([seat(index, beat) for index in range(3)], 100.0 + beat)
        assert asked == [5, 10, 15, 20]

    def test_that_nobody_has_input_left_is_no_error_but_the_end(self, caplog):
        made = members()
        with caplog.at_level(logging.WARNING, "ps_train"):
            logging.getLogger("ps_train").propagate = True
            assert made.update([seat(index, 1, TaskState.INPUT_ENDED) for index in range(3)], 101.0) is None
        assert caplog.messages[-1] == "worker:2 on host-b, pid 42 has no input left; no worker is left to train"

    @pytest.mark.parametrize(("field", "value", "most"), [("backup_workers", 3, 2), ("min_workers", 4, 3)])
    def test_more_than_there_are_workers_is_refused(self, field, value, most):
        with pytest.raises(ConfigError) as caught:
            members(update="sync", **{field: value})
        assert str(caught.value) == f"{field}={value} is too much for a job of 3 workers: use at most {most}."


class TestStall:
    def test_a_step_that_grows_is_none(self):
        stall = StallDetector(warn_secs=30)
        assert all(stall.update(step, ["worker:1"], 20.0 * step) is None for step in range(20))

    def test_one_that_stands_still_while_nobody_waits_is_none(self):
        stall = StallDetector(warn_secs=30)
        assert [stall.update(5, [], now) for now in (0.0, 100.0, 200.0)] == [None] * 3

    def test_one_that_stands_still_is_told_after_a_while_and_again_when_that_has_doubled(self):
        stall = StallDetector(warn_secs=30)
        told = [now for now in range(0, 200, 10) if stall.update(5, ["worker:1", "worker:2"], float(now))]
        assert told == [30, 60, 120]

    def test_after_a_new_step_the_time_begins_anew(self):
        stall = StallDetector(warn_secs=30)
        stall.update(5, ["worker:1"], 0.0)
        stall.update(6, ["worker:1"], 29.0)
        assert stall.update(6, ["worker:1"], 58.0) is None
        assert stall.update(6, ["worker:1"], 59.5) == "no update since step 6, for 30s: all wait for worker:1"

    def test_a_ps_that_does_not_answer_is_not_asked_for_every_one_of_those_who_left(self):
        made, asked = members(), []
        made.remove_replica = lambda index: bool(asked.append(index))
        made.update([seat(0, 1), seat(1, 0), seat(2, 0)], 111.0)
        assert asked == [1]

    def test_a_heartbeat_does_not_wait_for_a_ps_that_does_not_answer(self):
        made, silent, asked = members(run=BackgroundTask()), threading.Event(), []

        def dismiss(index):
            asked.append(index)
            return silent.wait(30)

        made.remove_replica = dismiss
        began = time.monotonic()
        for beat in range(1, 21):
            made.update([seat(0, beat), seat(1, 0), seat(2, 0)], 110.0 + beat)
        assert time.monotonic() - began < 5
        assert asked in ([], [1])
        silent.set()
