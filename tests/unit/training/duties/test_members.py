"""The chief's care for absent workers: it calls the ps in a thread, so that no heartbeat waits for a silent ps."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.membership import MembershipMonitor
from ps_train.cluster.sessions import abandonable
from ps_train.config.job import Job
from ps_train.training.duties.members import Members
from tests.support.machine.processes import eventually
from tests.support.status.tasks import worker_status

JOB = Job(ps_hosts=("a:1",), worker_hosts=("a:2", "a:3", "a:4"), heartbeat_timeout_secs=10.0)


class Chief:
    """A chief whose worker 1 is silent, and whose rounds the test gives."""

    def __init__(self, remove: Callable[[int], bool]) -> None:
        self.monitor = MembershipMonitor(JOB, Cluster.of(JOB), 100.0)
        self.remove = remove
        self._read: Any = None
        heartbeat = types.SimpleNamespace(subscribe=self._subscribe)
        joined: Any = types.SimpleNamespace(membership=self.monitor, heartbeat=heartbeat, stores=[None])
        setting: Any = types.SimpleNamespace(
            prepared=types.SimpleNamespace(task="worker:0"), now=types.SimpleNamespace(session="open")
        )
        rounds: Any = types.SimpleNamespace(remove_absent=self._remove, awaited=lambda: None)
        self.duty = Members(setting, joined, rounds)
        self.monitor.update([worker_status(index) for index in range(3)], 100.0)

    def _subscribe(self, read: Any) -> None:
        self._read = read

    def _remove(self, index: int, present: Sequence[str]) -> bool:
        assert "worker:1" not in present
        return self.remove(index)

    def beat(self, beat: int) -> None:
        self.monitor.update([worker_status(0, beat), worker_status(1, 0), worker_status(2, beat)], 111.0 + beat)
        self._read(1, {})
        self._read(0, {})


def test_workers_are_removed_though_an_earlier_removal_never_ends(monkeypatch: Any) -> None:
    monkeypatch.setattr("ps_train.training.duties.members.BackgroundTask", lambda: abandonable.BackgroundTask(0.2))
    never, asked = threading.Event(), list[int]()
    chief = Chief(lambda index: never.wait(60))  # a call to a ps that was frozen, and replaced elsewhere
    chief.beat(1)
    chief.remove = lambda index: not asked.append(index)  # of the session after the recovery

    def removed() -> bool:
        chief.beat(2)
        return 1 in asked

    eventually(removed, 20, "the removal of worker 1")
    never.set()


def test_a_heartbeat_does_not_wait_for_a_ps_that_does_not_answer() -> None:
    silent, asked = threading.Event(), list[int]()

    def remove(index: int) -> bool:
        asked.append(index)
        return silent.wait(30)

    chief, began = Chief(remove), time.monotonic()
    for beat in range(1, 21):
        chief.beat(beat)
    assert time.monotonic() - began < 25
    assert asked in ([], [1])
    silent.set()
