"""Steps of replicas in lockstep."""

from __future__ import annotations

from ps_train.training.loop import LockstepSource


class TestLockstepSource:
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
