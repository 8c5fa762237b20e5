"""The duties of a task: those that its job needs, in an order on which each promise of the list depends."""

from __future__ import annotations

import io
import types
from collections.abc import Sequence
from typing import Any

import pytest

from ps_train.base.console import Console
from ps_train.cluster.topology import FLAT, Topology
from ps_train.data.unbounded.row_gate import OPEN
from ps_train.engine.step.parts.loss_scaling import LossScaling
from ps_train.engine.step.parts.push_codec import PushCodec
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.training.duties import lists
from ps_train.training.duties.duty import Duty
from ps_train.training.duties.lists import Chief, Parts, Worker
from ps_train.training.duties.rack_display import RackDisplay

RACKS = Topology(("a",), (("worker:0", "worker:1"),), {"worker:0": "a", "worker:1": "a"})
KINDS = [
    name for name, value in vars(lists).items()
    if isinstance(value, type) and issubclass(value, Duty) and value.__module__ != "ps_train.training.duties.duty"
]  # fmt: skip


class Made(Duty):
    """A duty that knows its class and its arguments."""

    def __init__(self, kind: str, *arguments: Any, **named: Any) -> None:
        self.kind, self.arguments, self.named = kind, arguments, named
        self.fetches, self.profile = {"step": "step after"}, "profile"

    def __repr__(self) -> str:
        return self.kind


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        monkeypatch.setattr(lists, kind, lambda *args, kind=kind, **named: Made(kind, *args, **named))
    monkeypatch.setattr(lists, "Ending", lambda: Made("Ending"))
    monkeypatch.setattr(lists, "make_tracking", lambda *arguments: "tracking")
    monkeypatch.setattr(lists, "EventFile", lambda directory, texts: types.SimpleNamespace(add=None, texts=texts))
    monkeypatch.setattr(lists, "text_of", lambda job, plan: "text")
    monkeypatch.setattr(lists, "first_values", lambda setting, found: ["values", *found])
    monkeypatch.setattr(lists, "event_gates", lambda step, job: step.gates)


def setting_of(
    sharded: bool | None = None, gates: Sequence[str] = (), racks: Topology = FLAT, codec: bool = False,
    scaled: bool = False, gives_advice: bool = False, epochs: bool = False, **job: Any,
) -> Any:  # fmt: skip
    """What duties are made of; `sharded` is whether shared data have no end, None for none."""
    reader = types.SimpleNamespace(assigned=types.SimpleNamespace(reader=types.SimpleNamespace(is_endless=sharded)))
    parts = {
        Sharding: [] if sharded is None else [reader],
        PushCodec: [types.SimpleNamespace(residuals="residuals")] * codec,
        LossScaling: [types.SimpleNamespace(present="present")] * scaled,
    }
    model = types.SimpleNamespace(gives_advice=gives_advice, epochs=lambda: ["listener"] * epochs)
    settings = {"delta_every_secs": 0, "final_export_dir": "", **job}
    return types.SimpleNamespace(
        step=types.SimpleNamespace(parts=types.SimpleNamespace(of=lambda kind: parts[kind]), gates=gates),
        prepared=types.SimpleNamespace(
            job=types.SimpleNamespace(**settings), task="worker:0", model=model
        ),
        agreed=types.SimpleNamespace(topology=racks, plan="plan"),
    )  # fmt: skip


def of_chief(**options: Any) -> Parts:
    joined: Any = types.SimpleNamespace(directory="m", observer=types.SimpleNamespace(board="board"))
    console: Any = None
    setting = setting_of(**options)
    return Chief(setting.prepared, joined, console, ["warm"]).parts(setting)  # type: ignore[list-item]


def of_worker(**options: Any) -> Parts:
    setting = setting_of(**options)
    return Worker(setting.prepared).parts(setting)


def kinds(parts: Parts) -> list[str]:
    return [duty.kind for duty in parts.duties]  # type: ignore[attr-defined]


def made(parts: Parts, kind: str) -> Any:
    (found,) = [duty for duty in parts.duties if duty.kind == kind]  # type: ignore[attr-defined]
    return found


EVERY: dict[str, Any] = {
    "sharded": True, "gates": ["gate"], "codec": True, "scaled": True, "gives_advice": True, "delta_every_secs": 5,
    "final_export_dir": "e", "epochs": True,
}  # fmt: skip


@pytest.mark.parametrize("racks", [FLAT, RACKS])
def test_the_order_keeps_its_promises(racks: Topology) -> None:
    found = kinds(of_chief(**EVERY, racks=racks))
    rounds = "FlatRounds" if racks is FLAT else "RackRounds"
    for earlier, later in (
        ("Members", "Progressing"),
        ("Epochs", "Saving"),
        ("Progressing", "TrackingRun"),
        ("Progressing", "EventCuts"),
        ("Progressing", rounds),
        ("Progressing", "UserHooks"),
        ("Saving", "UserHooks"),
        ("EarlyStop", "UserHooks"),
        ("OwnModel", rounds),
        (rounds, "HeldResiduals"),
        ("Uploading", "Deltas"),
        ("Uploading", "Exporting"),
        ("Exporting", "Advising"),
    ):
        assert found.index(earlier) < found.index(later), (earlier, later)
    assert found[0] == "Confirming" and found[-1] == "Profiling"
    assert found[found.index(rounds) :] == [rounds, "HeldResiduals", "Profiling"], "nothing is in the way of a step"
    found = kinds(of_worker(**EVERY, racks=racks))
    assert found[:2] == ["Confirming", "AwaitedModel"]
    assert found[found.index(rounds) :] == [rounds, "HeldResiduals", "Profiling", "ScoringForChief"]


def test_each_of_the_named_duties_is_in_the_list() -> None:
    for parts in (of_chief(**EVERY), of_worker(**EVERY)):
        named = [parts.model, parts.feed, parts.rounds, parts.saves, parts.ending, parts.user_hooks]
        assert all(parts.duties.count(duty) == 1 for duty in named) and len(set(map(id, named))) == 6
        assert len({id(duty) for duty in parts.duties}) == len(parts.duties)


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ({"delta_every_secs": 5}, {"Deltas"}),
        ({"final_export_dir": "e"}, {"Exporting"}),
        ({"gives_advice": True}, {"Advising"}),
        ({"epochs": True}, {"Epochs"}),
        ({"codec": True}, {"HeldResiduals"}),
        ({"scaled": True}, {"ScaledLoss"}),
        ({"gates": ["gate"]}, {"EventCuts"}),
    ],
)
def test_a_feature_that_a_job_does_not_use_has_no_duty(options: dict[str, Any], added: set[str]) -> None:
    assert set(kinds(of_chief(**options))) - set(kinds(of_chief())) == added


@pytest.mark.parametrize(
    ("options", "kind", "gate"),
    [
        ({}, "OwnFeed", None),
        ({"sharded": False}, "SharedFeed", None),
        ({"sharded": True}, "PartitionFeed", OPEN),
        ({"sharded": True, "gates": ["gate"]}, "PartitionFeed", "gate"),
    ],
)
def test_the_data_say_what_a_task_trains_on(options: dict[str, Any], kind: str, gate: Any) -> None:
    for parts in (of_chief(**options), of_worker(**options)):
        feed: Any = parts.feed
        assert feed.kind == kind and feed.arguments[1:] == (() if gate is None else (gate,))


def test_a_hook_of_the_chief_ends_the_training_of_all_and_one_of_a_worker_its_own() -> None:
    chief, worker = made(of_chief(), "UserHooks"), made(of_worker(), "UserHooks")
    assert (chief.named, worker.named) == ({"ends_all": True}, {"ends_all": False})


def test_the_end_of_the_job_settles_what_is_held_and_then_leaves_the_outputs() -> None:
    parts = of_chief(**EVERY)
    settled, last = parts.ending.arguments[-2:]  # type: ignore[attr-defined]
    assert [duty.kind for duty in settled] == ["ScaledLoss", "HeldResiduals", "Epochs"]
    assert [duty.kind for duty in last] == ["Uploading", "Deltas", "Exporting", "Advising"]
    assert all(duty in parts.duties for duty in [*settled, *last])


def test_a_new_run_begins_with_the_models_values_and_those_of_the_warm_start() -> None:
    assert made(of_chief(), "OwnModel").arguments[-1] == ["values", "warm"]
    assert made(of_chief(delta_every_secs=5), "Saving").arguments[-1] == 5


def test_a_graph_that_is_built_already_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "build_step", lambda *arguments: arguments)
    agreed: Any = types.SimpleNamespace(plan="plan", topology="topology")
    prepared: Any = "prepared"
    built: Any = "built"
    assert Worker(prepared, built).build(agreed) == "built"
    assert Worker(prepared).build(agreed) == ("prepared", "plan", "topology")
    joined: Any = None
    assert Chief(prepared, joined, Console(io.StringIO()), (), built).build(agreed) == "built"


@pytest.mark.parametrize("is_mixed", [False, True])
def test_the_chief_shows_the_plan_before_the_page_is_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_mixed: bool
) -> None:
    caplog.set_level("INFO")
    calls: list[Any] = []
    display = RackDisplay()
    monkeypatch.setattr(display, "found", lambda topology, plan: calls.append(("racks", topology)))
    monkeypatch.setattr(lists, "instruction_set_line", lambda dtype: f"instructions for {dtype}")
    displays = types.SimpleNamespace(of=lambda kind: [display] if kind is RackDisplay else [])
    board = types.SimpleNamespace(displays=displays, planned=lambda plan: calls.append("planned"))
    observer = types.SimpleNamespace(board=board, start=lambda console: calls.append("serves"))
    console = types.SimpleNamespace(line=lambda text: calls.append(text))
    job = types.SimpleNamespace(is_mixed=is_mixed, compute_dtype="bfloat16")
    prepared: Any = types.SimpleNamespace(job=job, topology=FLAT)
    joined: Any = types.SimpleNamespace(observer=observer)
    chief = Chief(prepared, joined, console)  # type: ignore[arg-type]
    plan: Any = types.SimpleNamespace(table=lambda: "the table")
    weights: Any = types.SimpleNamespace(reason="ps 1 is slow")
    chief.planned(plan, weights)
    lines = ["the table", *(["instructions for bfloat16"] if is_mixed else [])]
    assert calls == [*lines, "planned", ("racks", FLAT), "serves"] and "ps 1 is slow" in caplog.messages
    agreed: Any = types.SimpleNamespace(plan=plan, topology=RACKS)
    chief.agreed(agreed)
    assert calls[-2:] == ["planned", ("racks", RACKS)]
