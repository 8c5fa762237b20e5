"""The monitor of other workers; the leader itself is tested with its optimizer, and in clusters."""

from __future__ import annotations

import time
import types

import pytest

from ps_train.cluster.membership.presence import AbsenceLimits, JobEndDetector
from ps_train.cluster.membership.records import TaskState
from ps_train.compat.train import sync_leader
from ps_train.compat.train.sync_leader import Monitor
from tests.support.status.tasks import task_status


@pytest.fixture
def monitor(monkeypatch):
    """A monitor whose thread does not run, and the workers that it found gone."""
    monkeypatch.setattr(Monitor, "_look_until_stopped", lambda self: None)
    gone = []
    detector = JobEndDetector([], AbsenceLimits(), 0.0)
    presence = types.SimpleNamespace(is_gone=lambda status: detector.is_gone(status, time.monotonic()))
    return Monitor(presence, ["worker:1", "worker:2"], gone.append), gone


def statuses(first, second, process="p"):
    return [task_status("worker:1", 1, first, process), task_status("worker:2", 1, second)]


def test_a_worker_that_ended_is_reported_once(monitor):
    found, gone = monitor
    found._look(statuses(TaskState.TRAINING, TaskState.LEFT))
    found._look(statuses(TaskState.TRAINING, TaskState.LEFT))
    assert gone == ["worker:2"]


def test_a_new_process_of_a_task_may_end_again(monitor):
    found, gone = monitor
    for process in ("p", "r"):
        found._look(statuses(TaskState.LEFT, TaskState.TRAINING, process))
    assert gone == ["worker:1", "worker:1"]


def test_a_worker_that_never_comes_is_reported_after_a_time(monitor, monkeypatch):
    found, gone = monitor
    found._look([])
    assert gone == []
    monkeypatch.setattr(sync_leader, "JOIN_SECS", -1.0)
    found._look([])
    assert gone == ["worker:1", "worker:2"]
