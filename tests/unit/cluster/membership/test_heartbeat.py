"""A heartbeat publishes a task's newest state, while other threads set it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ps_train.base.errors import LostTaskError
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership import records
from ps_train.cluster.membership.heartbeat import Heartbeat
from ps_train.cluster.membership.lease import Lease
from ps_train.cluster.membership.records import TaskState, TaskStatus, new_task_status
from ps_train.config.job import Job

KEY = records.task_key("worker:1")


class MemoryStore:
    """A key-value store in this process; writing takes a while, as it does elsewhere."""

    incarnation = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.history: list[str] = []
        self.answers = True
        self._value = ""
        self._lock = threading.Lock()

    def compare_and_set(self, key: str, expected: str, value: str) -> str:
        assert key == KEY
        before = self._value
        if before == expected:
            self.set(key, value)
        return before

    def set(self, key: str, value: str) -> None:
        assert key == KEY
        time.sleep(random.uniform(0, 0.003))
        if not self.answers:
            raise LostTaskError(f"{self.name} does not answer")
        with self._lock:
            self._value = value
            self.history.append(TaskStatus.from_json(value).state)


Published = tuple[Heartbeat, list[MemoryStore], Callable[[], None]]


@pytest.fixture
def published() -> Iterator[Published]:
    """A heartbeat that is published all the time, its stores, and a wait for more of it in every store."""
    stores = [MemoryStore("ps:0"), MemoryStore("ps:1")]
    some: Any = stores
    lease = Lease(some[0], new_task_status("worker:1"))
    lease.acquire(lease_secs=1)
    unused: Any = None
    heartbeat = Heartbeat(some, unused, lease, unused, Job(), unused)
    stopped = threading.Event()

    def publish(index: int) -> None:
        while not stopped.is_set():
            heartbeat.publish(index)

    def some_heartbeats() -> None:
        before, deadline = [len(store.history) for store in stores], time.monotonic() + 10
        while any(len(store.history) < start + 3 for store, start in zip(stores, before, strict=True)):
            assert time.monotonic() < deadline, "no heartbeat"
            time.sleep(0.001)

    threads = [threading.Thread(target=publish, args=[index]) for index in range(2)]
    for thread in threads:
        thread.start()
    yield heartbeat, stores, some_heartbeats
    stopped.set()
    for thread in threads:
        thread.join()


def test_a_heartbeat_takes_back_no_state_that_another_thread_sets(published: Published) -> None:
    heartbeat, stores, some_heartbeats = published
    for number in range(60):
        state = (TaskState.TRAINING, TaskState.WAITING)[number % 2]
        heartbeat.set_state(state)
        some_heartbeats()
        assert [store.history[-1] for store in stores] == [state, state]


def test_after_a_task_has_announced_its_leaving_no_store_shows_an_older_state(published: Published) -> None:
    heartbeat, stores, some_heartbeats = published
    for _ in range(30):
        heartbeat.set_state(TaskState.TRAINING)
        some_heartbeats()
        heartbeat.announce_leaving()
        by_then = [len(store.history) for store in stores]
        some_heartbeats()
        for store, since in zip(stores, by_then, strict=True):
            assert set(store.history[since - 1 :]) == {TaskState.LEAVING}, store.name


def test_a_state_that_could_not_be_written_is_written_by_the_next_heartbeat() -> None:
    store: Any = MemoryStore("ps:0")
    lease = Lease(store, new_task_status("worker:1"))
    lease.acquire(lease_secs=1)
    store.answers = False
    with pytest.raises(LostTaskError):
        lease.renew(TaskState.WAITING)
    store.answers = True
    assert lease.renew()
    assert store.history[-1] == TaskState.WAITING


def test_a_ps_whose_name_has_another_ip_address_is_reached_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moved(MemoryStore):
        peer = "10.0.0.1"

        def __init__(self) -> None:
            super().__init__("ps:0 (host-a:2222)")
            self.reconnected: list[tuple[str, str]] = []

        def reconnect_to(self, target: str, name: str) -> None:
            self.reconnected.append((target, name))

    store: Any = Moved()
    job = Job(ps_hosts=("host-a:2222",), worker_hosts=("host-b:2222",))
    unused: Any = None
    heartbeat = Heartbeat([store], ClusterResolver(job), Lease(store, new_task_status("worker:1")), unused, job, unused)
    for peer, times in (("10.0.0.1", 0), ("10.0.0.2", 1), ("10.0.0.2", 1), ("10.0.0.1", 2)):
        monkeypatch.setattr("ps_train.cluster.membership.heartbeat.check_reachable", lambda address, peer=peer: peer)
        heartbeat.probe_ps()
        assert store.reconnected == [("grpc://host-a:2222", store.name)] * times
        assert store.peer == peer
