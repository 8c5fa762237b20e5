"""The chief ends a job for which there is no input left."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.cluster.membership.liveness import PeerStates
from ps_train.engine.step.parts.step_part import StepParts
from ps_train.training.tasks.chief_training import ChiefTraining

NONE, WAITING = PeerStates((), ()), PeerStates((), ("worker:1 on host-b, pid 42",))


class Shares:
    def __init__(self, over: bool) -> None:
        self._over, self.freed = over, 0

    def is_over(self) -> bool:
        return self._over

    def release_all(self) -> None:
        self.freed += 1


def is_out_of_input(
    others: PeerStates, lockstep: bool = False, ended: bool = False, shares: Shares | None = None
) -> bool:
    step = types.SimpleNamespace(lockstep=lockstep)
    chief: Any = types.SimpleNamespace(step=step, input_ended=ended, shard_client=shares)
    return ChiefTraining._input_exhausted(chief, others)


@pytest.mark.parametrize(
    ("others", "ended", "expected"), [(NONE, False, False), (NONE, True, True), (WAITING, True, False)]
)
def test_without_lockstep_a_worker_that_waits_may_still_have_input(
    others: PeerStates, ended: bool, expected: bool
) -> None:
    assert is_out_of_input(others, ended=ended) is expected


def test_in_lockstep_the_job_is_over_when_no_worker_trains() -> None:
    assert is_out_of_input(WAITING, lockstep=True)


def test_shards_of_workers_that_are_gone_are_freed_until_all_epochs_are_over() -> None:
    left, over = Shares(False), Shares(True)
    assert not is_out_of_input(NONE, shares=left)
    assert is_out_of_input(WAITING, shares=over)
    assert (left.freed, over.freed) == (1, 0)


@pytest.mark.parametrize(
    ("saved", "has_recovered", "saves"), [(7, False, []), (6, False, ["saved"]), (7, True, ["saved"])]
)
def test_the_last_checkpoint_is_made_again_after_a_recovery(saved: int, has_recovered: bool, saves: list[str]) -> None:
    made: list[str] = []
    nothing = types.SimpleNamespace(wait=lambda session: None, save=lambda session: made.append("saved"))
    chief: Any = types.SimpleNamespace(
        _snapshots=nothing,
        _saver=types.SimpleNamespace(poll=lambda: None, step=saved, is_of_session=not has_recovered),
        step=types.SimpleNamespace(parts=StepParts()),
        _listeners=types.SimpleNamespace(end=lambda session, step: None),
        _has_recovered=has_recovered,
    )
    ChiefTraining._save_last(chief, None, 7)
    assert made == saves
