"""A task that prepares tells every ps that answers that it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ps_train.base.errors import LostTaskError
from ps_train.cluster.membership import preparing, records
from ps_train.cluster.membership.connect import NotReadyError
from ps_train.cluster.membership.preparing import told_as_preparing
from ps_train.cluster.membership.records import TaskState, TaskStatus
from ps_train.config.job import Job, Task

JOB = Job(ps_hosts=("a:1", "b:1", "c:1"), worker_hosts=("d:1", "e:1"))


class Sign:
    """A sign of life whose beats the test makes."""

    def __init__(self, name: str, tell: Callable[[], None], every_secs: float, first_secs: float) -> None:
        self.tell, self.calls = tell, list[str]()
        signs.append(self)

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


signs: list[Sign] = []


class Stores:
    """The stores of the ps; b does not listen yet, c does not answer calls."""

    made: list[str] = []
    written: list[tuple[str, str, str]] = []

    def __init__(self, target: str, name: str) -> None:
        self._name = name
        self.made.append(name)

    def set(self, key: str, text: str) -> None:
        if self._name.startswith("c"):
            raise LostTaskError("no answer")
        self.written.append((self._name, key, text))


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(address: Any) -> None:
        if str(address).startswith("b"):
            raise NotReadyError("it does not listen")

    signs.clear()
    monkeypatch.setattr(Stores, "made", [])
    monkeypatch.setattr(Stores, "written", [])
    monkeypatch.setattr(preparing, "LifeSign", Sign)
    monkeypatch.setattr(preparing, "check_reachable", check)
    monkeypatch.setattr(preparing, "KeyValueStore", Stores)


def test_ps_that_answer_are_told_with_a_new_beat_each_time() -> None:
    with told_as_preparing(JOB, Task("worker", 1)):
        (sign,) = signs
        sign.tell()
        sign.tell()
        assert sign.calls == ["start"]
    assert sign.calls == ["start", "stop"]
    assert [(name, key) for name, key, _ in Stores.written] == [("a:1", records.preparing_key("worker:1"))] * 2
    told = [TaskStatus.from_json(text) for _, _, text in Stores.written]
    assert [status.heartbeat for status in told] == [1, 2]
    assert {(status.task, status.state) for status in told} == {("worker:1", TaskState.PREPARING)}
    assert Stores.made == ["a:1", "c:1"]  # a connection is made once


def test_the_sign_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), told_as_preparing(JOB, Task("worker", 0)):
        raise KeyError
    assert signs[0].calls == ["start", "stop"]
