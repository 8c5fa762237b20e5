"""One process at a time holds the lease of a task, on a real server and with several claims at once."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from ps_train.base.errors import RefusedError
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.lease import Lease
from ps_train.cluster.membership.records import TaskStatus, new_task_status
from tests.support.clusters.cluster import in_parallel


def test_a_lease_is_held_by_one_process_only_and_the_refused_one_is_told_which(
    store_of: Callable[[], KeyValueStore],
) -> None:
    first, second = Lease(store_of(), new_task_status("worker:1")), Lease(store_of(), new_task_status("worker:1"))
    first.acquire(lease_secs=5)

    def beat() -> None:
        for _ in range(200):
            assert first.renew()
            if told:
                return
            time.sleep(0.05)

    told: list[str] = []

    def claim() -> None:
        with pytest.raises(RefusedError, match=f"worker:1 is already running.*pid {os.getpid()}") as refusal:
            second.acquire(lease_secs=5)
        told.append(str(refusal.value))

    in_parallel([beat, claim])
    assert told


def test_of_several_that_claim_a_lease_at_the_same_moment_one_gets_it(store_of: Callable[[], KeyValueStore]) -> None:
    leases = [Lease(store_of(), new_task_status("worker:1")) for _ in range(4)]
    got: list[Lease] = []

    def claim(lease: Lease) -> None:
        try:
            lease.acquire(lease_secs=1.5)
        except RefusedError:
            return
        got.append(lease)
        for _ in range(60):
            if not lease.renew():
                got.remove(lease)
                return
            time.sleep(0.05)

    in_parallel([lambda lease=lease: claim(lease) for lease in leases])
    assert len(got) == 1


def test_the_lease_of_a_silent_process_is_taken_over_and_that_process_learns_of_it(
    store_of: Callable[[], KeyValueStore],
) -> None:
    first, second = Lease(store_of(), new_task_status("worker:1")), Lease(store_of(), new_task_status("worker:1"))
    first.acquire(lease_secs=1)
    second.acquire(lease_secs=0.5)
    assert second.renew() and not first.renew()


def test_the_lease_of_a_process_that_is_gone_is_free_at_once(store_of: Callable[[], KeyValueStore]) -> None:
    gone = int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))
    Lease(store_of(), dataclasses.replace(new_task_status("worker:1"), pid=gone)).acquire(lease_secs=60)
    start = time.monotonic()
    Lease(store_of(), new_task_status("worker:1")).acquire(lease_secs=60)
    assert time.monotonic() - start < 25


def test_a_lease_survives_the_loss_of_its_store(store_of: Callable[[], KeyValueStore]) -> None:
    store = store_of()
    lease = Lease(store, new_task_status("worker:1"))
    lease.acquire(lease_secs=1)
    store.set(records.task_key("worker:1"), TaskStatus("worker:1", lease.status.process_id, "host", 1).to_json())
    assert lease.renew("training")
    assert TaskStatus.from_json(store.get(records.task_key("worker:1"))).state == "training"


def test_a_lease_that_was_acquired_by_a_call_whose_answer_came_too_late_is_acquired_again_at_once(
    store_of: Callable[[], KeyValueStore],
) -> None:
    lease = Lease(store_of(), new_task_status("worker:1"))
    lease.acquire(lease_secs=5)  # suppose that the answer did not come
    began = time.monotonic()
    lease.acquire(lease_secs=30)
    assert time.monotonic() - began < 10 and lease.renew()
