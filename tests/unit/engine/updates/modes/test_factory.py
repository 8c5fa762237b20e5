"""The update mode of a job."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.config.job import Job
from ps_train.engine.updates.modes.asynchronous import Asynchronous
from ps_train.engine.updates.modes.bounded import Bounded
from ps_train.engine.updates.modes.factory import make_update
from ps_train.engine.updates.modes.synchronous import Synchronous


@pytest.mark.parametrize(("update", "kind"), [("async", Asynchronous), ("bounded", Bounded), ("sync", Synchronous)])
def test_the_flag_names_the_mode(update: str, kind: type) -> None:
    assert type(make_update(Job(update=update), replicas=2)) is kind


@pytest.mark.parametrize(
    ("fields", "may_be_empty"),
    [
        ({}, False),
        ({"sharding": "dynamic"}, True),
        ({"on_nan": "skip"}, True),
        ({"inject_fault": ("drop_push:0.1",)}, True),
    ],
)
def test_a_step_may_be_without_a_push_if_gradients_may_be_left_out(
    fields: dict[str, Any], may_be_empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def init(self: Any, *arguments: Any) -> None:
        given.extend(arguments)

    monkeypatch.setattr(Asynchronous, "__init__", init)
    make_update(Job(update="async", max_steps=77, **fields), replicas=2)
    assert given[:2] == [may_be_empty, 77]


def test_backup_workers_are_those_that_a_round_does_not_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def init(self: Any, *arguments: Any) -> None:
        given.append(arguments)

    monkeypatch.setattr(Synchronous, "__init__", init)
    make_update(Job(update="sync", backup_workers=1, save_steps=0), replicas=4)
    make_update(Job(update="sync", epochs=1, save_steps=5), replicas=4)
    (_, _, first, first_saves), (is_empty, _, second, second_saves) = given
    assert first != second and (first_saves, second_saves) == (False, True) and is_empty
