"""The update mode of a job, with what the flags ask of it."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.config.job import Job
from ps_train.engine.updates.modes.asynchronous import Asynchronous
from ps_train.engine.updates.modes.base import Replica, UpdateMode
from ps_train.engine.updates.modes.bounded import Bounded
from ps_train.engine.updates.modes.factory import make_update
from ps_train.engine.updates.modes.stale_gradients import DividedRate, MaxStaleness
from ps_train.engine.updates.modes.synchronous import Synchronous


def made(**fields: Any) -> UpdateMode:
    return make_update(Job(**{"steps_per_run": "1", "max_steps": 70, **fields}), replicas=4)


@pytest.mark.parametrize(("name", "kind"), [("async", Asynchronous), ("bounded", Bounded), ("sync", Synchronous)])
def test_each_name_has_its_mode_up_to_the_last_step(name: str, kind: type) -> None:
    mode = made(update=name)
    assert type(mode) is kind and mode._max_steps == 70  # type: ignore[attr-defined]
    assert (mode.lockstep, mode.scaled) == ((True, True) if name == "sync" else (False, False))


@pytest.mark.parametrize("update", ["async", "bounded", "sync"])
@pytest.mark.parametrize(
    "fields",
    [
        {"on_nan": "skip"},
        {"accumulate": 2},
        {"epochs": 3, "steps_per_run": "8"},
        {"sharding": "dynamic"},
        {"inject_fault": ("drop_push:0.5",)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_may_bring_gradients_of_no_example_is_told(update: str, fields: dict[str, Any]) -> None:
    assert made(update=update, **fields).may_be_empty
    assert not made(update=update).may_be_empty


def test_of_epochs_step_by_step_only_synchronous_rounds_have_empty_gradients() -> None:
    assert {name: made(update=name, epochs=3).may_be_empty for name in ("async", "bounded", "sync")} == {
        "async": False,
        "bounded": False,
        "sync": True,
    }


@pytest.mark.parametrize(("backups", "batches"), [("0", 4), ("1", 3), ("auto", 4)])
def test_synchronous_rounds_begin_with_the_fewest_backups(backups: str, batches: int) -> None:
    assert made(update="sync", backup_workers=backups).batches_per_update(Replica(0, 4, 4)) == batches


def test_synchronous_rounds_know_whether_checkpoints_are_at_steps() -> None:
    assert [made(update="sync", save_steps=steps)._saves_at_steps for steps in (0, 5)] == [False, True]  # type: ignore[attr-defined]


@pytest.mark.parametrize("update", ["async", "bounded"])
def test_the_rules_for_stale_gradients_are_those_of_the_job(update: str) -> None:
    rules = made(update=update, divide_lr_by_staleness=True, max_staleness=6)._rules  # type: ignore[attr-defined]
    assert [type(rule) for rule in rules] == [DividedRate, MaxStaleness]
    assert list(made(update=update)._rules) == []  # type: ignore[attr-defined]
