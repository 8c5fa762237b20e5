"""A job whose step stands still while others wait is reported, ever more rarely."""

from __future__ import annotations

from ps_train.cluster.membership.liveness import StallDetector


class TestStallDetector:
    def test_a_step_that_grows_is_none(self):
        stall = StallDetector(warn_secs=30)
        assert all(stall.update(step, ["worker:1"], 20.0 * step) is None for step in range(20))

    def test_one_that_stands_still_while_no_worker_waits_is_none(self):
        stall = StallDetector(warn_secs=30)
        assert [stall.update(5, [], now) for now in (0.0, 100.0, 200.0)] == [None] * 3

    def test_one_that_stands_still_is_reported_after_a_while_and_again_when_that_has_doubled(self):
        stall = StallDetector(warn_secs=30)
        told = [now for now in range(0, 200, 10) if stall.update(5, ["worker:1", "worker:2"], float(now))]
        assert told == [30, 60, 120]

    def test_after_a_new_step_the_time_begins_anew(self):
        stall = StallDetector(warn_secs=30)
        stall.update(5, ["worker:1"], 0.0)
        stall.update(6, ["worker:1"], 29.0)
        assert stall.update(6, ["worker:1"], 58.0) is None
        assert stall.update(6, ["worker:1"], 59.5) == "no update since step 6, for 30s: all wait for worker:1"
