"""The user's hooks end the training of one task or of all, and are told the end once."""

from __future__ import annotations

import types
from typing import Any

import pytest
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership import records
from ps_train.config.job import Job
from ps_train.training.duties import user_hooks
from ps_train.training.duties.user_hooks import UserHooks


class Hooks:
    """The hooks of a model."""

    def __init__(self, model: Any, requested: Any, may_feed: bool) -> None:
        assert may_feed, "without local steps"
        self.hooks, self.run_alone, self.have_ended = model.hooks, model.alone, False
        self.closed: list[Any] = []
        self._requested = requested

    def end_training(self, name: str) -> None:
        self.have_ended = True
        self._requested(name)

    def close(self, session: Any) -> None:
        self.closed.append(session)


class Store(dict[str, str]):
    def set(self, key: str, value: str) -> None:
        self[key] = value


@pytest.fixture
def duty(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(user_hooks, "ModelHooks", Hooks)

    def made(ends_all: bool, hooks: int = 1, alone: bool = False) -> tuple[UserHooks, Store, Any]:
        store, heartbeat = Store(), types.SimpleNamespace(is_trained=False, is_ending=False)
        model = types.SimpleNamespace(hooks=[v1.train.SessionRunHook()] * hooks, alone=alone)
        setting: Any = types.SimpleNamespace(
            prepared=types.SimpleNamespace(task="worker:1", model=model, job=Job()),
            joined=types.SimpleNamespace(heartbeat=heartbeat, stores=[store]),
        )
        return UserHooks(setting, ends_all), store, heartbeat

    return made


def test_a_hook_of_the_chief_ends_the_training_of_all(duty) -> None:
    chief, store, _ = duty(ends_all=True)
    assert not chief.have_ended
    chief.end_training("StopHook")
    assert store == {records.TRAINED: "StopHook"} and chief.have_ended and not chief.have_left


def test_a_hook_of_a_worker_ends_its_own(duty) -> None:
    worker, store, heartbeat = duty(ends_all=False)
    worker.end_training("StopHook")
    assert store == {} and worker.have_ended and worker.have_left
    other, _, heartbeat = duty(ends_all=False)
    heartbeat.is_trained = True  # a hook of the chief
    assert other.have_ended and not other.have_left


@pytest.mark.parametrize(
    ("hooks", "alone", "asked"), [(0, False, (False, False)), (1, False, (False, True)), (1, True, (True, True))]
)
def test_hooks_ask_the_loop_for_their_calls(duty, hooks: int, alone: bool, asked: tuple[bool, bool]) -> None:
    made, _, _ = duty(ends_all=False, hooks=hooks, alone=alone)
    assert (made.bursts.alone, made.bursts.often) == asked and len(made.hooks) == hooks


def test_the_end_is_announced_only_by_a_task_that_has_hooks(duty) -> None:
    for hooks in (0, 1):
        made, store, _ = duty(ends_all=True, hooks=hooks)
        made.announce_end()
        assert store == ({records.ENDING: "worker:1"} if hooks else {})


def test_hooks_are_told_the_end_when_it_is_near_or_there(duty) -> None:
    made, _, heartbeat = duty(ends_all=False)
    made.waiting("session")
    assert made._hooks.closed == []
    heartbeat.is_ending = True
    made.waiting("session")
    made.done(None)
    assert made._hooks.closed == ["session", None]
