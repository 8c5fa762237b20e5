"""A ps gives up when no worker comes, or when all have fallen silent; it ends with a program that needs no outcome."""

from __future__ import annotations

import pytest

from ps_train.base.errors import JobFailedError, LostTaskError, UnreachableError
from ps_train.cluster.membership import records
from ps_train.cluster.membership.records import TaskState
from ps_train.config.job import Job
from ps_train.training.tasks.ps import AllWorkersGoneDetector, ScriptsEndDetector, is_done
from tests.support.status.tasks import store_of, task_status


class TestAllWorkersGoneDetector:
    """A ps decides from the statuses in its store."""

    JOB = Job(startup_timeout_secs=30.0, recovery_timeout_secs=10.0)

    def test_workers_have_time_to_come(self):
        AllWorkersGoneDetector(self.JOB, 100.0).update({}, 130.0)

    def test_a_ps_to_which_no_worker_comes_gives_up(self):
        with pytest.raises(UnreachableError, match=r"31s \(startup_timeout_secs\)"):
            AllWorkersGoneDetector(self.JOB, 100.0).update({}, 131.0)

    def test_other_records_are_no_worker(self):
        with pytest.raises(UnreachableError):
            AllWorkersGoneDetector(self.JOB, 100.0).update({records.IDENTITY: "{}"}, 131.0)

    def test_workers_that_all_fall_silent_are_gone(self):
        detector = AllWorkersGoneDetector(self.JOB, 100.0)
        both = store_of(task_status("worker:0", 3), task_status("worker:1", 4))
        detector.update(both, 105.0)
        detector.update(both, 115.0)
        with pytest.raises(LostTaskError, match=r"11s \(recovery_timeout_secs\)"):
            detector.update(both, 116.0)

    def test_one_worker_that_speaks_is_enough(self):
        detector = AllWorkersGoneDetector(self.JOB, 100.0)
        for beat in range(10):
            detector.update(store_of(task_status("worker:0", 3), task_status("worker:1", beat)), 100.0 + 9 * beat)

    def test_a_restarted_worker_counts_as_life(self):
        detector = AllWorkersGoneDetector(self.JOB, 100.0)
        detector.update(store_of(task_status("worker:0", 0, process="first")), 100.0)
        detector.update(store_of(task_status("worker:0", 0, process="second")), 111.0)


@pytest.mark.parametrize("content, done", [('{"global_step": 30}', True), ('{"global_step": 29}', False), ("x", False)])
def test_a_job_is_done_if_its_result_has_all_steps(tmp_path, content, done):
    job = Job(model_dir=str(tmp_path), max_steps=30)
    assert not is_done(job)
    (tmp_path / "result.json").write_text(content)
    assert is_done(job) == done
    assert not is_done(Job(model_dir=str(tmp_path), epochs=1))  # it may go on with more data


class TestScriptsEndDetector:
    """Workers that train as a script does end without an outcome; the chief is worker 0."""

    JOB = Job(ps_hosts=("a:1",), worker_hosts=("a:2", "a:3"), recovery_timeout_secs=10.0)

    def updates(self, *states, times=(0.0, 100.0)):
        detector = ScriptsEndDetector(self.JOB)
        statuses = [task_status(f"worker:{index}", state=state) for index, state in enumerate(states)]
        return [detector.update(store_of(*statuses), now) for now in times]

    def test_it_is_over_when_all_have_left(self):
        assert self.updates("left", "left", times=[0.0]) == ["the job is over: worker:0 ended, worker:1 ended"]

    def test_a_chief_that_has_not_left_may_be_one_of_the_engine(self):
        for state in TaskState:
            if state not in (TaskState.LEFT, TaskState.FAILED):
                assert self.updates(state, "left") == ["", ""]

    def test_the_others_may_go_on_after_the_chief(self):
        assert self.updates("left", "training", times=[0.0, 9.0]) == ["", ""]

    def test_a_worker_that_fell_silent_is_not_waited_for_without_end(self):
        first, second = self.updates("left", "training", times=[0.0, 10.0])
        assert first == "" and second == "the job is over: worker:0 ended, worker:1 fell silent"

    def test_a_program_of_which_no_task_ended_well_has_failed(self):
        with pytest.raises(JobFailedError, match=r"worker:0 failed, worker:1 failed\."):
            self.updates("failed", "failed")

    def test_a_chief_that_comes_back_begins_anew(self):
        detector = ScriptsEndDetector(self.JOB)
        assert detector.update(store_of(task_status("worker:0", state="failed")), 0.0) == ""
        assert detector.update(store_of(task_status("worker:0", state="training", process="second")), 100.0) == ""
