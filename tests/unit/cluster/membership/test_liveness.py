"""A process lives as long as its heartbeat grows within its lease."""

from __future__ import annotations

import types

import pytest

from ps_train.cluster.membership import liveness
from ps_train.cluster.membership.liveness import TaskLiveness
from tests.support.status.tasks import task_status


class TestTaskLiveness:
    @pytest.fixture
    def clock(self, monkeypatch):
        clock = types.SimpleNamespace(now=50.0)
        monkeypatch.setattr(liveness, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
        return clock

    def test_a_task_that_is_seen_for_the_first_time_lives(self, clock):
        assert TaskLiveness(10.0).is_alive(task_status(heartbeat=7))

    def test_a_task_whose_heartbeat_stands_still_lives_until_its_lease_ends(self, clock):
        living = TaskLiveness(10.0)
        living.is_alive(task_status(heartbeat=7))
        clock.now += 9.9
        assert living.is_alive(task_status(heartbeat=7))
        clock.now += 0.1
        assert not living.is_alive(task_status(heartbeat=7))

    def test_a_task_whose_heartbeat_grows_lives_on(self, clock):
        living = TaskLiveness(10.0)
        for beat in range(5):
            assert living.is_alive(task_status(heartbeat=beat))
            clock.now += 9.0

    def test_a_task_that_speaks_again_lives_again(self, clock):
        living = TaskLiveness(10.0)
        living.is_alive(task_status(heartbeat=7))
        clock.now += 60
        assert not living.is_alive(task_status(heartbeat=7))
        assert living.is_alive(task_status(heartbeat=8))

    def test_every_process_has_a_lease_of_its_own(self, clock):
        living = TaskLiveness(10.0)
        living.is_alive(task_status(process="first", heartbeat=1))
        clock.now += 10
        assert living.is_alive(task_status(process="second", heartbeat=1))
        assert not living.is_alive(task_status(process="first", heartbeat=1))
