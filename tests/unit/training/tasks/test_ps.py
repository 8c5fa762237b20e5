"""A ps gives up when no worker comes, or when all have fallen silent."""

from __future__ import annotations

from ps_train.base.errors import LostTaskError, UnreachableError
from ps_train.cluster.membership import records
from ps_train.config.job import Job
from ps_train.training.tasks.ps import AllWorkersGoneDetector
from tests.support.statuses import store_of, task_status


class TestAllWorkersGoneDetector:
    """A ps decides from the statuses in its store."""

    JOB = Job(startup_timeout_secs=30.0, recovery_timeout_secs=10.0)

    def test_workers_have_time_to_come(self):
        assert AllWorkersGoneDetector(self.JOB, 100.0).update({}, 130.0) is None

    def test_a_ps_to_which_no_worker_comes_gives_up(self):
        error = AllWorkersGoneDetector(self.JOB, 100.0).update({}, 131.0)
        assert isinstance(error, UnreachableError)
        assert "31s (startup_timeout_secs)" in str(error)

    def test_other_records_are_no_worker(self):
        assert isinstance(
            AllWorkersGoneDetector(self.JOB, 100.0).update({records.IDENTITY: "{}"}, 131.0), UnreachableError
        )

    def test_workers_that_all_fall_silent_are_gone(self):
        detector = AllWorkersGoneDetector(self.JOB, 100.0)
        both = store_of(task_status("worker:0", 3), task_status("worker:1", 4))
        assert detector.update(both, 105.0) is None
        assert detector.update(both, 115.0) is None
        error = detector.update(both, 116.0)
        assert isinstance(error, LostTaskError)
        assert "11s (recovery_timeout_secs)" in str(error)

    def test_one_worker_that_speaks_is_enough(self):
        detector = AllWorkersGoneDetector(self.JOB, 100.0)
        for beat in range(10):
            assert (
                detector.update(store_of(task_status("worker:0", 3), task_status("worker:1", beat)), 100.0 + 9 * beat)
                is None
            )

    def test_a_restarted_worker_counts_as_life(self):
        detector = AllWorkersGoneDetector(self.JOB, 100.0)
        detector.update(store_of(task_status("worker:0", 0, process="first")), 100.0)
        assert detector.update(store_of(task_status("worker:0", 0, process="second")), 111.0) is None
