"""The monitor logs joins and leaves, removes absent replicas and ends a job with too few workers."""

from __future__ import annotations

import logging

import pytest

from ps_train.base.errors import ConfigError, TooFewWorkersError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.membership import MembershipMonitor
from ps_train.cluster.membership.records import TaskState
from ps_train.config.job import Job
from tests.support.status.tasks import worker_status

JOB = Job(ps_hosts=("a:1",), worker_hosts=("a:2", "a:3", "a:4"), heartbeat_timeout_secs=10.0)


def monitor(now=100.0, **fields):
    job = Job(**{"ps_hosts": JOB.ps_hosts, "worker_hosts": JOB.worker_hosts, **fields})
    made = MembershipMonitor(job, Cluster.of(job), now)
    made.update([worker_status(index) for index in range(3)], now)
    return made


class TestMembershipMonitor:
    @pytest.mark.parametrize(
        ("fields", "rest"),
        [
            ({"update": "sync"}, "the quorum is now 2 of 3 workers"),
            ({"update": "sync", "backup_workers": 1}, "the quorum is now 1 of 3 workers"),
            ({"update": "async"}, "training continues with 2 of 3 workers"),
            ({"update": "bounded"}, "training continues with 2 of 3 workers"),
        ],
    )
    def test_a_leave_is_logged_with_its_reason_and_the_workers_that_remain(self, fields, rest, caplog):
        with caplog.at_level(logging.WARNING, "ps_train"):
            logging.getLogger("ps_train").propagate = True
            monitor(**fields).update([worker_status(0, 1), worker_status(1, 0), worker_status(2, 1)], 111.0)
        assert caplog.messages == [
            f"worker:1 on host-b, pid 41 has said nothing for 10s (heartbeat_timeout_secs); {rest}",
        ]

    def test_absent_workers_are_removed_at_every_update_until_they_are_back(self):
        made, dismissed = monitor(), []
        made.update([worker_status(0, 1), worker_status(1, 0), worker_status(2, 1)], 111.0)  # there is no session yet
        for beat in (2, 3):
            made.update([worker_status(0, beat), worker_status(1, 0), worker_status(2, beat)], 112.0)
            made.care(lambda index: not dismissed.append(index), lambda: None, 112.0)
        assert dismissed == [1, 1]
        made.update([worker_status(0, 4), worker_status(1, 1), worker_status(2, 4)], 113.0)
        made.care(lambda index: not dismissed.append(index), lambda: None, 113.0)
        assert dismissed == [1, 1]

    def test_fewer_than_min_workers_are_an_error_that_names_the_worker_that_left(self):
        made = monitor(min_workers=2)
        assert made.update([worker_status(0, 1), worker_status(1, 0), worker_status(2, 1)], 111.0) is None
        error = made.update(
            [worker_status(0, 2), worker_status(1, 0), worker_status(2, 2, TaskState.INPUT_ENDED)], 112.0
        )
        assert isinstance(error, TooFewWorkersError)
        assert str(error) == (
            "worker:2 on host-b, pid 42 has no input left: 1 of 3 workers remain, fewer than min_workers=2"
        )

    def test_once_too_few_remain_no_step_is_let_go_on_without_the_lost_worker(self):
        made, removed = monitor(update="sync", min_workers=3), []
        beats = [[worker_status(0, beat), worker_status(1, 0), worker_status(2, beat)] for beat in (1, 2, 3)]
        assert isinstance(made.update(beats[0], 111.0), TooFewWorkersError)
        for statuses in beats[1:]:  # the chief saves meanwhile
            made.update(statuses, 112.0)
            made.care(lambda index: not removed.append(index), lambda: None, 112.0)
        assert removed == []

    def test_it_is_logged_when_all_wait_for_a_worker_that_lives_but_makes_no_steps(self, caplog):
        made = monitor(update="sync")
        with caplog.at_level(logging.WARNING, "ps_train"):
            logging.getLogger("ps_train").propagate = True
            for beat in range(1, 50):
                made.update([worker_status(index, beat) for index in range(3)], 100.0 + beat)
                made.care(lambda index: True, lambda: (7, [1]), 100.0 + beat)
        assert caplog.messages == ["no update since step 7, for 30s: all wait for worker:1"]

    def test_the_ps_are_asked_for_the_awaited_workers_every_five_seconds_only(self):
        made, asked = monitor(update="sync"), []
        for beat in range(1, 25):
            made.care(lambda index: True, lambda beat=beat: asked.append(beat), 100.0 + beat)
        assert asked == [5, 10, 15, 20]

    def test_that_no_worker_has_input_left_is_no_error_but_the_end(self, caplog):
        made = monitor()
        with caplog.at_level(logging.WARNING, "ps_train"):
            logging.getLogger("ps_train").propagate = True
            assert made.update([worker_status(index, 1, TaskState.INPUT_ENDED) for index in range(3)], 101.0) is None
        assert caplog.messages[-1] == "worker:2 on host-b, pid 42 has no input left; all input has been read"
        assert made.update([worker_status(index, 2, TaskState.LEAVING) for index in range(3)], 102.0) is None
        assert made.update([worker_status(index, 3, TaskState.LEFT) for index in range(3)], 103.0) is None
        assert len(caplog.messages) == 3, "a worker that reads the outcome is not back"

    def test_workers_that_fell_silent_have_not_read_all_input(self, caplog):
        made = monitor()
        with caplog.at_level(logging.WARNING, "ps_train"):
            logging.getLogger("ps_train").propagate = True
            made.update([worker_status(0, 1, TaskState.INPUT_ENDED), worker_status(1, 0), worker_status(2, 0)], 111.0)
        assert caplog.messages[-1].endswith(
            "has said nothing for 10s (heartbeat_timeout_secs); no worker is left to train"
        )

    @pytest.mark.parametrize(("field", "value", "most"), [("backup_workers", 3, 2), ("min_workers", 4, 3)])
    def test_more_than_there_are_workers_is_refused(self, field, value, most):
        with pytest.raises(ConfigError) as caught:
            monitor(update="sync", **{field: value})
        assert str(caught.value) == f"{field}={value} is too much for a job of 3 workers: use at most {most}."

    def test_a_ps_that_does_not_answer_is_not_asked_for_every_absent_worker(self):
        made, asked = monitor(), []
        made.update([worker_status(0, 1), worker_status(1, 0), worker_status(2, 0)], 111.0)
        made.care(lambda index: bool(asked.append(index)), lambda: None, 111.0)
        assert asked == [1]
