"""What tasks agree on, in which order, and what they confirm in every session."""

from __future__ import annotations

import json
import types
from typing import Any

import pytest

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.topology import FLAT, Topology
from ps_train.config.job import Job
from ps_train.training.joining import agreement
from ps_train.training.joining.agreement import agree, confirm

JOB = Job(ps_hosts=("a:1",), worker_hosts=("a:2", "a:3"), startup_timeout_secs=1.0)
CLUSTER = Cluster.of(JOB)
RACKS = Topology.of({"worker:0": "x", "worker:1": "y"}, CLUSTER)


class Store(dict[str, str]):
    """A key-value store in memory."""

    def set(self, key: str, value: str) -> None:
        self[key] = value


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of the parts, in their order."""
    found: list[Any] = []

    def part(name: str, result: Any = None) -> None:
        monkeypatch.setattr(agreement, name, lambda *arguments: (found.append(name), result)[1])

    part("agree_with_chief")
    part("measured_weights", types.SimpleNamespace(weights=(1, 2), reason="slow"))
    part("found_racks", FLAT)
    part("confirm_weights")
    part("confirm_racks")
    return found


def prepared(is_chief: bool, calls: list[Any]) -> Any:
    def plan(weights: Any) -> str:
        calls.append(("plan", weights))
        return "the plan"

    return types.SimpleNamespace(
        cluster=CLUSTER, task="worker:0" if is_chief else "worker:1", is_chief=is_chief, job=JOB, plan=plan,
        description={"seed": 1},
    )  # fmt: skip


def joined() -> Any:
    resolver = types.SimpleNamespace(current=lambda: types.SimpleNamespace(ps=CLUSTER.ps))
    return types.SimpleNamespace(stores=[Store()], resolver=resolver)


@pytest.mark.parametrize("is_chief", [True, False])
def test_the_plan_is_told_before_racks_are_waited_for(calls: list[Any], is_chief: bool) -> None:
    agreed = agree(prepared(is_chief, calls), joined(), lambda plan, weights: calls.append(("planned", plan)))
    first = [] if is_chief else ["agree_with_chief"]
    assert calls == [*first, "measured_weights", ("plan", (1, 2)), ("planned", "the plan"), "found_racks"]
    assert agreed.plan == "the plan" and agreed.topology is FLAT
    assert agreed.pushers == ("worker:0", "worker:1") and agreed.declared == 2


def test_with_racks_the_racks_push(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "found_racks", lambda *arguments: RACKS)
    agreed = agree(prepared(True, calls), joined(), lambda plan, weights: None)
    assert agreed.pushers == ("rack x", "rack y") and agreed.declared == 2


def test_the_chief_writes_its_description_again_in_every_session(calls: list[Any]) -> None:
    store: Any = Store()
    agreed: Any = types.SimpleNamespace(weights=None, topology=FLAT)
    confirm(prepared(False, calls), agreed, store)
    assert store == {} and calls == ["confirm_weights", "confirm_racks"]
    confirm(prepared(True, calls), agreed, store)
    assert json.loads(store[records.DESCRIPTION]) == {"seed": 1}
