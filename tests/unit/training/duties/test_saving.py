"""The last checkpoint, and what steps that wait for a checkpoint do without a chief."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.training.duties.duty import LastStep
from ps_train.training.duties.saving import Saving


@pytest.mark.parametrize(
    ("saved", "is_newer", "has_settled", "saves"),
    [
        (7, False, False, []),
        (6, False, False, ["saved"]),
        (7, True, False, ["saved"]),
        (7, False, True, ["saved"]),
    ],
)
def test_the_last_checkpoint_is_made_again_after_a_recovery_and_after_a_change_without_a_step(
    saved: int, is_newer: bool, has_settled: bool, saves: list[str]
) -> None:
    made: list[str] = []
    paths = types.SimpleNamespace(path=lambda step: f"/run/{step}", shown_path=lambda step: f"s3://run/{step}")
    saving: Any = types.SimpleNamespace(
        _snapshots=types.SimpleNamespace(wait=lambda session: None, save=lambda session: made.append("saved")),
        _hook=types.SimpleNamespace(poll=lambda: None, step=saved, is_of_session=not is_newer),
        listeners=types.SimpleNamespace(end=lambda session, step: None),
        checkpoints=paths,
        _is_newer=is_newer,
    )
    assert Saving.save_last(saving, None, 7, has_settled) == LastStep(7, "/run/7", "s3://run/7")
    assert made == saves
