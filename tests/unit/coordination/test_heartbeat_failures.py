"""Decisions without processes: who is silent, who still trains, how long a burst is, how many steps are left."""

from __future__ import annotations

import types

import numpy as np
import pytest

from ps_train.config.job import Job
from ps_train.coordination import liveness, records
from ps_train.coordination.heartbeat import FailureDetector, outcome_error, task_statuses
from ps_train.coordination.liveness import TaskLiveness
from ps_train.coordination.records import Outcome, TaskStatus
from ps_train.errors import JobFailedError, LostTaskError, UnreachableError
from ps_train.hooks.counters import RunCounterValues
from ps_train.roles.ps import AllWorkersGoneDetector
from ps_train.training.loop import LockstepSource
from ps_train.training.result import PeerStates, RunSummary


def seat(task="worker:1", beat=0, state="training", holder=None):
    return TaskStatus(
        task, process_id=holder or f"holder of {task}", host="host-b", pid=42, state=state, heartbeat=beat
    )


def board(*seats):
    return {records.task_key(s.task): s.to_json() for s in seats}


class TestWatch:
    """Worker 1 is needed, may take 20 seconds to join, and may be silent for 10."""

    def watch(self, needed=("worker:1",), start=100.0):
        return FailureDetector(dict.fromkeys(needed, 10.0), join_secs=20.0, now=start)

    def test_a_task_has_time_to_join(self):
        assert self.watch().update([], 120.0) is None

    def test_a_task_that_does_not_join_in_time_is_missing(self):
        error = self.watch().update([], 120.5)
        assert isinstance(error, UnreachableError)
        assert "worker:1" in str(error)
        assert "20s (startup_timeout_secs)" in str(error)

    def test_a_task_whose_beat_grows_is_never_silent(self):
        watch = self.watch()
        assert all(watch.update([seat(beat=beat)], 100.0 + 9 * beat) is None for beat in range(20))

    def test_a_task_whose_beat_stands_still_is_lost_after_the_silence_that_it_is_allowed(self):
        watch = self.watch()
        assert watch.update([seat(beat=5)], 103.0) is None
        assert watch.update([seat(beat=5)], 113.0) is None
        error = watch.update([seat(beat=5)], 113.5)
        assert isinstance(error, LostTaskError)
        assert "worker:1 on host-b, pid 42" in str(error)
        assert "10s" in str(error)

    def test_a_task_that_speaks_again_in_time_is_not_lost(self):
        watch = self.watch()
        watch.update([seat(beat=5)], 103.0)
        watch.update([seat(beat=6)], 112.0)
        assert watch.update([seat(beat=6)], 121.0) is None

    def test_a_new_process_of_the_task_counts_as_life_even_with_the_same_beat(self):
        watch = self.watch()
        watch.update([seat(beat=0, holder="first")], 100.0)
        assert watch.update([seat(beat=0, holder="second")], 115.0) is None
        assert watch.update([seat(beat=0, holder="second")], 124.0) is None

    def test_a_task_is_heard_from_when_it_is_first_seen_not_from_the_start(self):
        watch = self.watch()
        assert watch.update([seat()], 119.0) is None
        assert watch.update([seat()], 128.0) is None

    def test_time_in_which_nobody_could_be_heard_does_not_count(self):
        watch = self.watch()
        watch.update([seat(beat=5)], 103.0)
        watch.extend_deadlines(30.0)
        assert watch.update([seat(beat=5)], 143.0) is None
        assert watch.update([seat(beat=5)], 143.5) is not None

    def test_nor_does_it_for_a_task_that_has_yet_to_join(self):
        watch = self.watch()
        assert watch.update([], 115.0) is None
        watch.extend_deadlines(30.0)
        assert watch.update([], 150.0) is None
        assert isinstance(watch.update([], 150.5), UnreachableError)

    def test_a_task_that_nobody_needs_may_be_silent(self):
        watch = self.watch(needed=())
        watch.update([seat()], 100.0)
        assert watch.update([seat()], 999.0) is None

    def test_each_needed_task_is_watched_by_itself(self):
        watch = self.watch(needed=("worker:0", "worker:1"))
        for beat, now in enumerate((100.0, 105.0, 110.0)):
            assert watch.update([seat("worker:0", beat=beat), seat("worker:1")], now) is None
        error = watch.update([seat("worker:0", beat=9), seat("worker:1")], 111.0)
        assert isinstance(error, LostTaskError)
        assert "worker:1" in str(error)

    def test_each_needed_task_has_its_own_allowance(self):
        watch = FailureDetector({"worker:0": 50.0, "worker:1": 10.0}, join_secs=20.0, now=0.0)
        seats = [seat("worker:0"), seat("worker:1")]
        watch.update(seats, 0.0)
        assert "worker:1" in str(watch.update(seats, 30.0))


class TestSilence:
    """What a ps concludes from the seats on its board."""

    JOB = Job(startup_timeout_secs=30.0, recovery_timeout_secs=10.0)

    def test_workers_have_time_to_come(self):
        assert AllWorkersGoneDetector(self.JOB, 100.0).update({}, 130.0) is None

    def test_a_ps_to_which_no_worker_comes_gives_up(self):
        error = AllWorkersGoneDetector(self.JOB, 100.0).update({}, 131.0)
        assert isinstance(error, UnreachableError)
        assert "31s (startup_timeout_secs)" in str(error)

    def test_other_notices_are_no_worker(self):
        assert isinstance(
            AllWorkersGoneDetector(self.JOB, 100.0).update({records.IDENTITY: "{}"}, 131.0), UnreachableError
        )

    def test_workers_that_all_fall_silent_are_gone(self):
        silence = AllWorkersGoneDetector(self.JOB, 100.0)
        both = board(seat("worker:0", 3), seat("worker:1", 4))
        assert silence.update(both, 105.0) is None
        assert silence.update(both, 115.0) is None
        error = silence.update(both, 116.0)
        assert isinstance(error, LostTaskError)
        assert "11s (recovery_timeout_secs)" in str(error)

    def test_one_worker_that_speaks_is_enough(self):
        silence = AllWorkersGoneDetector(self.JOB, 100.0)
        for beat in range(10):
            assert silence.update(board(seat("worker:0", 3), seat("worker:1", beat)), 100.0 + 9 * beat) is None

    def test_a_restarted_worker_counts_as_life(self):
        silence = AllWorkersGoneDetector(self.JOB, 100.0)
        silence.update(board(seat("worker:0", 0, holder="first")), 100.0)
        assert silence.update(board(seat("worker:0", 0, holder="second")), 111.0) is None


class TestLiveness:
    @pytest.fixture
    def clock(self, monkeypatch):
        clock = types.SimpleNamespace(now=50.0)
        monkeypatch.setattr(liveness, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
        return clock

    def test_a_task_that_is_seen_for_the_first_time_lives(self, clock):
        assert TaskLiveness(10.0).is_alive(seat(beat=7))

    def test_a_task_whose_beat_stands_still_lives_until_its_lease_ends(self, clock):
        living = TaskLiveness(10.0)
        living.is_alive(seat(beat=7))
        clock.now += 9.9
        assert living.is_alive(seat(beat=7))
        clock.now += 0.1
        assert not living.is_alive(seat(beat=7))

    def test_a_task_whose_beat_grows_lives_on(self, clock):
        living = TaskLiveness(10.0)
        for beat in range(5):
            assert living.is_alive(seat(beat=beat))
            clock.now += 9.0

    def test_a_task_that_speaks_again_lives_again(self, clock):
        living = TaskLiveness(10.0)
        living.is_alive(seat(beat=7))
        clock.now += 60
        assert not living.is_alive(seat(beat=7))
        assert living.is_alive(seat(beat=8))

    def test_every_process_has_a_lease_of_its_own(self, clock):
        living = TaskLiveness(10.0)
        living.is_alive(seat(holder="first", beat=1))
        clock.now += 10
        assert living.is_alive(seat(holder="second", beat=1))
        assert not living.is_alive(seat(holder="first", beat=1))


class TestOthers:
    def test_who_starts_or_trains_is_waited_for_and_who_waits_could_train_on(self):
        states = {"worker:0": "training", "worker:1": "starting", "worker:2": "training", "worker:3": "waiting"}
        states |= {"worker:4": "input ended", "worker:5": "done"}
        others = PeerStates.from_records(
            [seat(task, state=s) for task, s in states.items()], "worker:0", lambda seat: True
        )
        assert others.training == ("worker:1 on host-b, pid 42", "worker:2 on host-b, pid 42")
        assert others.waiting == ("worker:3 on host-b, pid 42",)

    def test_nobody_waits_for_itself(self):
        assert PeerStates.from_records([seat("worker:0")], "worker:0", lambda seat: True) == PeerStates((), ())

    def test_nobody_waits_for_the_dead(self):
        seats = [seat("worker:1"), seat("worker:2"), seat("worker:3", state="waiting")]
        others = PeerStates.from_records(seats, "worker:0", lambda s: s.task == "worker:2")
        assert others == PeerStates(("worker:2 on host-b, pid 42",), ())


class TestEnding:
    """A run of 50 steps that resumed a job at step 150."""

    def ending(self, step=200, made=50):
        zeros = np.zeros([1, 2], np.int64)
        tally = RunCounterValues("async", ["worker:0"], 1, 6400.0, skipped=0, dropped=0, staleness=zeros, waiting=zeros)
        return RunSummary(step, made, 32.0 * made, wall_secs=4.0, loss=0.5, metrics={}, counters=tally)

    def test_rates_are_of_this_run_and_counts_of_the_whole_job(self):
        result = self.ending().result(Job())
        assert (result["global_step"], result["examples"]) == (200, 6400)
        assert (result["steps_per_sec"], result["examples_per_sec"]) == (12.5, 400.0)

    def test_the_console_shows_the_same_rates(self):
        lines = self.ending().lines(Job(max_steps=200), "stopped")
        assert lines == ["trained 50 steps in 4.0s: 12 global steps/s, 400 examples/s"]

    def test_a_run_that_ends_early_says_why_and_where(self):
        assert self.ending().lines(Job(max_steps=300), "stopped")[1:] == ["stopped at step 200 of 300"]

    def test_a_run_that_had_nothing_to_do_says_so(self):
        lines = self.ending(made=0).lines(Job(max_steps=200), "stopped")
        assert lines == ["this job is finished already, at step 200 of 200"]


class TestSeats:
    def test_only_seats_are_read_from_a_board(self):
        found = task_statuses(
            {**board(seat("worker:0"), seat("chief:0")), records.IDENTITY: "{}", records.OUTCOME: "x"}
        )
        assert sorted(s.task for s in found) == ["chief:0", "worker:0"]

    def test_a_seat_survives_the_board(self):
        assert task_statuses(board(seat("worker:0", 9, "waiting"))) == [seat("worker:0", 9, "waiting")]


class TestFailure:
    def test_a_failed_job_names_the_task_and_its_cause(self):
        error = outcome_error(Outcome("failed", by="worker:1", cause="the loss is NaN"))
        assert isinstance(error, JobFailedError)
        assert "worker:1: the loss is NaN" in str(error)
        assert error.exit_code == 1

    def test_a_failure_that_a_restart_never_helps_keeps_its_exit_code(self):
        assert outcome_error(Outcome("failed", by="worker:1", cause="no such model", config=True)).exit_code == 2
        assert outcome_error(Outcome("failed", by="worker:1", cause="lost")).exit_code == 1


class TestLockstepPace:
    def test_every_replica_makes_every_step(self):
        first, second = LockstepSource(10), LockstepSource(10)
        assert first.take(10, 0) == second.take(10, 0) == 10

    def test_no_more_steps_are_given_than_are_left(self):
        pace = LockstepSource(10)
        assert [pace.take(4, step) for step in (0, 4, 8, 10)] == [4, 4, 2, 0]

    def test_steps_that_made_no_update_do_not_count(self):
        pace = LockstepSource(10)
        assert [pace.take(10, 0), pace.take(10, 7)] == [10, 3]

    def test_a_finished_job_has_no_steps(self):
        assert LockstepSource(10).take(5, 12) == 0
