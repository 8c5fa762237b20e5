"""A task whose heartbeat stands still is lost, and an outcome tells why a job failed."""

from __future__ import annotations

from ps_train.base.errors import JobFailedError, LostTaskError, UnreachableError
from ps_train.cluster.membership.heartbeat import FailureDetector, outcome_error
from ps_train.cluster.membership.records import Outcome
from tests.support.status.tasks import task_status


class TestFailureDetector:
    """Worker 1 is needed, may take 20 seconds to join, and may be silent for 10."""

    def detector(self, needed=("worker:1",), start=100.0):
        return FailureDetector(dict.fromkeys(needed, 10.0), join_secs=20.0, now=start)

    def test_a_task_has_time_to_join(self):
        assert self.detector().update([], 120.0) is None

    def test_a_task_that_does_not_join_in_time_is_missing(self):
        error = self.detector().update([], 120.5)
        assert isinstance(error, UnreachableError)
        assert "worker:1" in str(error)
        assert "20s (startup_timeout_secs)" in str(error)

    def test_a_task_whose_record_was_lost_with_its_ps_is_not_one_that_has_never_joined(self):
        """A restarted ps 0 has no records, and each task writes its own at its next heartbeat."""
        detector = self.detector()
        assert all(detector.update([task_status(heartbeat=beat)], 100.0 + beat) is None for beat in range(50))
        assert detector.update([], 150.0) is None
        assert detector.update([task_status(heartbeat=50)], 151.0) is None

    def test_a_task_whose_record_does_not_come_back_is_lost_after_its_timeout(self):
        detector = self.detector()
        assert detector.update([task_status(heartbeat=5)], 103.0) is None
        assert detector.update([], 113.0) is None
        error = detector.update([], 113.5)
        assert isinstance(error, LostTaskError)
        assert "worker:1 on host-b, pid 42" in str(error)

    def test_a_task_whose_heartbeat_grows_is_never_silent(self):
        detector = self.detector()
        assert all(detector.update([task_status(heartbeat=beat)], 100.0 + 9 * beat) is None for beat in range(20))

    def test_a_task_whose_heartbeat_stands_still_is_lost_after_its_timeout(self):
        detector = self.detector()
        assert detector.update([task_status(heartbeat=5)], 103.0) is None
        assert detector.update([task_status(heartbeat=5)], 113.0) is None
        error = detector.update([task_status(heartbeat=5)], 113.5)
        assert isinstance(error, LostTaskError)
        assert "worker:1 on host-b, pid 42" in str(error)
        assert "10s" in str(error)

    def test_a_task_that_speaks_again_in_time_is_not_lost(self):
        detector = self.detector()
        detector.update([task_status(heartbeat=5)], 103.0)
        detector.update([task_status(heartbeat=6)], 112.0)
        assert detector.update([task_status(heartbeat=6)], 121.0) is None

    def test_a_new_process_of_the_task_counts_as_life_even_with_the_same_heartbeat(self):
        detector = self.detector()
        detector.update([task_status(heartbeat=0, process="first")], 100.0)
        assert detector.update([task_status(heartbeat=0, process="second")], 115.0) is None
        assert detector.update([task_status(heartbeat=0, process="second")], 124.0) is None

    def test_a_task_is_heard_from_when_it_is_first_seen_not_from_the_start(self):
        detector = self.detector()
        assert detector.update([task_status()], 119.0) is None
        assert detector.update([task_status()], 128.0) is None

    def test_time_in_which_no_task_could_be_heard_does_not_count(self):
        detector = self.detector()
        detector.update([task_status(heartbeat=5)], 103.0)
        detector.extend_deadlines(30.0)
        assert detector.update([task_status(heartbeat=5)], 143.0) is None
        assert detector.update([task_status(heartbeat=5)], 143.5) is not None

    def test_nor_does_it_for_a_task_that_has_yet_to_join(self):
        detector = self.detector()
        assert detector.update([], 115.0) is None
        detector.extend_deadlines(30.0)
        assert detector.update([], 150.0) is None
        assert isinstance(detector.update([], 150.5), UnreachableError)

    def test_a_task_that_is_not_needed_may_be_silent(self):
        detector = self.detector(needed=())
        detector.update([task_status()], 100.0)
        assert detector.update([task_status()], 999.0) is None

    def test_each_needed_task_is_watched_by_itself(self):
        detector = self.detector(needed=("worker:0", "worker:1"))
        for beat, now in enumerate((100.0, 105.0, 110.0)):
            assert detector.update([task_status("worker:0", heartbeat=beat), task_status("worker:1")], now) is None
        error = detector.update([task_status("worker:0", heartbeat=9), task_status("worker:1")], 111.0)
        assert isinstance(error, LostTaskError)
        assert "worker:1" in str(error)

    def test_each_needed_task_has_its_own_allowance(self):
        detector = FailureDetector({"worker:0": 50.0, "worker:1": 10.0}, join_secs=20.0, now=0.0)
        statuses = [task_status("worker:0"), task_status("worker:1")]
        detector.update(statuses, 0.0)
        assert "worker:1" in str(detector.update(statuses, 30.0))


class TestOutcomeError:
    def test_a_failed_job_names_the_task_and_its_cause(self):
        error = outcome_error(Outcome("failed", by="worker:1", cause="the loss is NaN"))
        assert isinstance(error, JobFailedError)
        assert "worker:1: the loss is NaN" in str(error)
        assert error.exit_code == 1

    def test_a_failure_that_a_restart_never_helps_keeps_its_exit_code(self):
        assert outcome_error(Outcome("failed", by="worker:1", cause="no such model", config=True)).exit_code == 2
        assert outcome_error(Outcome("failed", by="worker:1", cause="lost")).exit_code == 1
