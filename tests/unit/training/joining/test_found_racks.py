"""All tasks learn the same racks, and a running job keeps them."""

from __future__ import annotations

import json
import logging
import types
from typing import Any

import pytest

from ps_train.base.errors import RefusedError, UnreachableError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.records import Identity, TaskStatus
from ps_train.cluster.topology import FLAT, Topology
from ps_train.config.job import Job
from ps_train.training.joining.found_racks import confirm_racks, found_racks


class Store:
    """A key-value store in memory."""

    def __init__(self, items: dict[str, str] | None = None) -> None:
        self.content = dict(items or {})

    def items(self) -> dict[str, str]:
        return dict(self.content)

    def get(self, key: str) -> str:
        return self.content.get(key, "")

    def compare_and_set(self, key: str, before: str, after: str) -> str:
        if self.content.get(key, "") == before:
            self.content[key] = after
        return "" if self.content[key] == after else self.content[key]


def prepared(index: int = 1, rack: str = "b", timeout_secs: float = 0.2, topology: Topology = FLAT) -> Any:
    job = Job(
        ps_hosts=("a:1",), worker_hosts=("a:2", "a:3"), rack=rack, startup_timeout_secs=timeout_secs, update="sync"
    )  # fmt: skip
    return types.SimpleNamespace(
        job=job, cluster=Cluster.of(job), task=f"worker:{index}", topology=topology, is_chief=index == 0
    )


def told(*racks: str) -> dict[str, str]:
    """What workers tell of themselves."""
    statuses = [
        TaskStatus(f"worker:{index}", process_id="p", host="h", pid=1, rack=rack) for index, rack in enumerate(racks)
    ]
    return {records.task_key(status.task): status.to_json() for status in statuses}


def test_the_racks_are_those_that_the_workers_tell() -> None:
    stores: Any = [Store(told("a", "b"))]
    topology = found_racks(prepared(), stores)
    assert topology.racks == {"worker:0": "a", "worker:1": "b"}
    assert topology.names == ("a", "b") and not topology.is_flat


def test_a_worker_that_tells_no_rack_is_named() -> None:
    stores: Any = [Store(told("a", ""))]
    with pytest.raises(UnreachableError, match=r"worker:1 has not told its rack: give each worker --rack"):
        found_racks(prepared(), stores)


def test_a_worker_that_comes_back_from_elsewhere_keeps_its_place(caplog: pytest.LogCaptureFixture) -> None:
    stores: Any = [Store({**told("a", "c"), "topology": json.dumps({"worker:0": "a", "worker:1": "b"})})]
    with caplog.at_level(logging.WARNING):
        topology = found_racks(prepared(rack="c"), stores)
    assert topology.racks["worker:1"] == "b"
    assert "worker:1 stays in rack b, its place in the running job" in caplog.text


def test_racks_of_ps_are_known_if_they_were_told() -> None:
    identity = Identity("ps:0", "p", "h", 1, {}, rack="a")
    stores: Any = [Store({**told("a", "b"), records.IDENTITY: identity.to_json()})]
    assert found_racks(prepared(), stores).racks["ps:0"] == "a"


def test_a_file_of_racks_and_a_job_without_racks_need_no_store() -> None:
    given = Topology.of({"worker:0": "a", "worker:1": "b"}, prepared().cluster)
    assert found_racks(prepared(topology=given), []) is given
    assert found_racks(prepared(rack=""), []) is FLAT


def test_the_chief_writes_the_racks_and_others_compare_them() -> None:
    cluster = prepared().cluster
    racks = Topology.of({"worker:0": "a", "worker:1": "b", "ps:0": "a"}, cluster)
    store: Any = Store()
    confirm_racks(prepared(0), racks, store)
    assert json.loads(store.content["topology"]) == {"worker:0": "a", "worker:1": "b"}
    confirm_racks(prepared(1), racks, store)
    other = Topology.of({"worker:0": "b", "worker:1": "a"}, cluster)
    for index in (0, 1):
        with pytest.raises(RefusedError, match="racks of the workers are not the same in all tasks"):
            confirm_racks(prepared(index), other, store)
    confirm_racks(prepared(1), FLAT, store)
