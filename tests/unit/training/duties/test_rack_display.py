"""What the status page shows of racks."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.cluster.membership.records import TaskState, TaskStatus
from ps_train.cluster.membership.succession import Aggregator, aggregator_key
from ps_train.cluster.topology import FLAT, Topology
from ps_train.training.duties.rack_display import RackDisplay

RACKS = Topology(
    ("a", "b"), (("worker:0", "worker:1"), ("worker:2",)),
    {"worker:0": "a", "worker:1": "a", "worker:2": "b", "ps:0": "b"},
)  # fmt: skip
PLAN: Any = types.SimpleNamespace(bytes_per_ps=lambda: [1000])


def status(task: str, process: str, rack: str = "") -> TaskStatus:
    return TaskStatus(task, process_id=process, host="h", pid=1, rack=rack)


@pytest.fixture
def display() -> RackDisplay:
    found = RackDisplay()
    found.found(RACKS, PLAN)
    role = Aggregator(task="worker:1", process_id="p1", address="h:1", term="t", is_ready=True)
    found.read_records({aggregator_key("a"): role.to_json(), "other": "x"})
    return found


def test_bytes_between_racks_follow_from_the_plan(display: RackDisplay) -> None:
    crossing, flat = RACKS.core_bytes([1000])
    assert crossing < flat
    core = display.values({"steps_per_sec": 2.0}, 0.0)["core"]
    assert core == {"bytes_per_step": crossing, "flat_bytes_per_step": flat, "bytes_per_sec": crossing * 2}
    assert display.values({"steps_per_sec": None}, 0.0)["core"]["bytes_per_sec"] is None


def test_without_racks_or_without_those_of_the_ps_nothing_is_said_of_bytes() -> None:
    flat, unknown = RackDisplay(), RackDisplay()
    flat.found(FLAT, PLAN)
    unknown.found(Topology(("a",), (("worker:0",),), {"worker:0": "a"}), PLAN)
    assert flat.values({"steps_per_sec": 1.0}, 0.0) == unknown.values({"steps_per_sec": 1.0}, 0.0) == {}


@pytest.mark.parametrize(
    ("task", "process", "state", "shown"),
    [
        ("worker:1", "p1", "training", ("a", True)),
        ("worker:1", "p2", "training", ("a", False)),  # a later process of the task
        ("worker:0", "p0", "training", ("a", False)),
        ("worker:1", "p1", "lost", ("a", False)),
        ("worker:1", "p1", TaskState.LEFT, ("a", False)),
        ("worker:2", "p2", "training", ("b", False)),
    ],
)
def test_a_worker_shows_its_rack_and_whether_it_adds_up(
    display: RackDisplay, task: str, process: str, state: str, shown: tuple[str, bool]
) -> None:
    assert display.of_worker(task, status(task, process), state) == {"rack": shown[0], "is_aggregator": shown[1]}


def test_a_worker_of_no_known_rack_shows_its_own(display: RackDisplay) -> None:
    assert display.of_worker("worker:9", status("worker:9", "p", "c"), "training")["rack"] == "c"
    assert display.of_worker("worker:9", None, "training") == {"rack": None, "is_aggregator": False}


@pytest.mark.parametrize(
    ("task", "alive", "waits"),
    [
        ("worker:0", status("worker:1", "p1"), ""),
        ("worker:0", status("worker:1", "p2"), "the rack"),  # the aggregator has been restarted
        ("worker:0", None, "the rack"),
        ("worker:2", status("worker:1", "p1"), "the rack"),  # its rack has no aggregator
    ],
)
def test_workers_of_a_rack_wait_for_a_living_aggregator(
    display: RackDisplay, task: str, alive: TaskStatus | None, waits: str
) -> None:
    assert display.waits_for(status(task, "p0"), lambda name: alive) == waits


def test_an_aggregator_that_is_not_ready_lets_nobody_in(display: RackDisplay) -> None:
    role = Aggregator(task="worker:1", process_id="p1", address="h:1", term="t", is_ready=False)
    display.read_records({aggregator_key("a"): role.to_json()})
    assert display.waits_for(status("worker:0", "p0"), lambda name: status("worker:1", "p1")) == "the rack"
    assert RackDisplay().waits_for(status("worker:0", "p0"), lambda name: None) == ""
