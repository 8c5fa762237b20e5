"""Where the model on the ps comes from, and what is said of its state."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.training.duties import models
from ps_train.training.duties.models import AwaitedModel, OwnModel

SESSION: Any = types.SimpleNamespace(run=lambda fetch: 77 if fetch == "step" else None)


@pytest.mark.parametrize("mode", ["full", "partial"])
@pytest.mark.parametrize(
    ("found", "was_there", "is_newer"),
    [
        ((None, None), False, (False, False)),
        (("g", "g"), True, (True, True)),
        ((None, "g"), True, (False, True)),  # the lost ps: all go back to the checkpoint, or that one alone
    ],
)
def test_the_chief_knows_what_was_there(
    monkeypatch: pytest.MonkeyPatch, mode: str, found: Any, was_there: bool, is_newer: tuple[bool, bool]
) -> None:
    monkeypatch.setattr(models, "ready_records", lambda stores: list(found))
    asked: list[Any] = []

    class Recovery:
        def __init__(self, **parts: Any) -> None:
            assert parts["chief_task"] == "worker:0" and parts["first_values"] == ["write"]

        def prepare(self, *arguments: Any) -> Any:
            asked.append(arguments)
            return types.SimpleNamespace(step=40)

    monkeypatch.setattr(models, "Recovery", Recovery)
    job = types.SimpleNamespace(recovery_mode=mode)
    setting: Any = types.SimpleNamespace(
        prepared=types.SimpleNamespace(job=job, task="worker:0"), step="the step", console="console"
    )
    joined: Any = types.SimpleNamespace(
        stores=["s"], heartbeat=types.SimpleNamespace(process_id="p"),
        membership=types.SimpleNamespace(present=list), model_directory=types.SimpleNamespace(set_aside=str),
    )  # fmt: skip
    saving: Any = types.SimpleNamespace(checkpoints="checkpoints")
    progressing: Any = types.SimpleNamespace(known_step=30)
    writers: Any = ["write"]
    state = OwnModel(setting, joined, saving, progressing, writers).prepare(SESSION)
    assert asked == [(SESSION, list(found), 30)] and state.step == 40
    assert (state.was_there, state.is_newer) == (was_there, is_newer[mode == "partial"])


def test_another_worker_waits_for_the_chief_and_reads_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(models, "await_ready", lambda *arguments: (waited.append(arguments), "ready")[1])
    job = types.SimpleNamespace(startup_timeout_secs=5.0)
    setting: Any = types.SimpleNamespace(
        joined=types.SimpleNamespace(stores=["s"]),
        step=types.SimpleNamespace(ps=types.SimpleNamespace(global_step="step")),
        prepared=types.SimpleNamespace(task="worker:1", cluster=types.SimpleNamespace(chief="worker:0"), job=job),
    )
    state = AwaitedModel(setting).prepare(SESSION)
    assert (state.ready, state.step, state.was_there) == ("ready", 77, False)
    assert waited == [(["s"], "worker:0", 5.0)]
