"""A worker waits for what the chief tells, and compares the job with the chief's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ps_train.base.errors import RefusedError, UnreachableError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.config.job import Job
from ps_train.training.joining.told_by_chief import agree_with_chief, told_by_chief

CLUSTER = Cluster.of(Job(ps_hosts=("a:1",), worker_hosts=("a:2", "a:3")))


class Store:
    """A store whose records come after so many reads."""

    def __init__(self, late: int = 0, **items: str) -> None:
        self._late, self._items, self.reads = late, items, 0

    def get(self, key: str) -> str:
        self.reads += 1
        return self._items.get(key, "") if self.reads > self._late else ""

    def items(self) -> dict[str, str]:
        return {}


def test_a_record_is_waited_for() -> None:
    store: Any = Store(late=2, topology="{}")
    assert told_by_chief(store, "topology", "told the racks", CLUSTER, timeout_secs=60) == "{}"
    assert store.reads == 3


def test_a_chief_that_tells_nothing_is_named() -> None:
    store: Any = Store()
    with pytest.raises(UnreachableError, match=r"worker:0 \(a:2\).*has not told the racks yet"):
        told_by_chief(store, "topology", "told the racks", CLUSTER, timeout_secs=0.2)


def test_a_task_of_another_job_is_refused_with_the_differences() -> None:
    described = {records.DESCRIPTION: json.dumps({"seed": 1, "model": "m:M"})}
    store: Any = Store(**described)
    agree_with_chief(store, {"seed": 1, "model": "m:M"}, CLUSTER, "worker:1", timeout_secs=5)
    with pytest.raises(RefusedError, match=r"worker:1 differs from the job of worker:0 \(a:2\): .*seed"):
        agree_with_chief(store, {"seed": 2, "model": "m:M"}, CLUSTER, "worker:1", timeout_secs=5)
