"""The warm start of a job: only for a run without checkpoints of its own, and from a step below the last one."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import pytest

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.config.job import Job
from ps_train.modeling.model import Model
from ps_train.training.joining import warm_starts
from ps_train.training.joining.warm_starts import find_warm_start, open_warm_start
from tests.support.saved.checkpoints import write_checkpoint

VARIABLES: Any = "variables"
MODEL = Model()


@pytest.fixture
def old(tmp_path: pathlib.Path) -> str:
    (tmp_path / "old").mkdir()
    write_checkpoint(tmp_path / "old", 50, run="")
    return str(tmp_path / "old")


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(warm_starts, "choose", lambda *arguments: (found.append(arguments), {"w": "choice"})[1])
    return found


def test_a_new_run_begins_with_the_checkpoint(old: str, tmp_path: pathlib.Path, chosen: list[Any]) -> None:
    (found,) = find_warm_start(Job(warm_start=old), MODEL, VARIABLES, str(tmp_path / "new"))
    assert found.choices == {"w": "choice"} and found.source.global_step == 50 and chosen[0][0] == "variables"
    assert find_warm_start(Job(), MODEL, VARIABLES, str(tmp_path / "new")) == []


def test_a_run_with_checkpoints_goes_on_unless_they_are_ignored(old: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "own").mkdir()
    write_checkpoint(tmp_path / "own", 5, run="")
    own = str(tmp_path / "own")
    assert find_warm_start(Job(warm_start=old), MODEL, VARIABLES, own) == []
    assert open_warm_start(Job(warm_start=old, ignore_checkpoints=True), MODEL, own) is not None
    assert open_warm_start(Job(warm_start=old), MODEL, "") is not None


@pytest.mark.parametrize(("max_steps", "is_right"), [(51, True), (50, False), (20, False)])
def test_a_kept_step_is_below_the_last_one(old: str, max_steps: int, is_right: bool) -> None:
    job = Job(warm_start=old, warm_start_step="keep", max_steps=max_steps)
    if is_right:
        assert len(find_warm_start(job, MODEL, VARIABLES, "")) == 1
        return
    with pytest.raises(ConfigError, match=rf"begins at step 50, and max_steps={max_steps}"):
        find_warm_start(job, MODEL, VARIABLES, "")


def test_a_checkpoint_without_a_step_has_none_to_keep(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = types.SimpleNamespace(global_step=None, shown="old/x")
    monkeypatch.setattr(warm_starts, "open_source", lambda *arguments: source)
    with pytest.raises(ConfigError, match="old/x has no global step; use 0"):
        find_warm_start(Job(warm_start=old, warm_start_step="keep"), MODEL, VARIABLES, "")


def test_a_damaged_checkpoint_is_an_error_of_the_flag(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> None:
        raise DamagedCheckpointError("x is damaged")

    monkeypatch.setattr(warm_starts, "choose", fails)
    with pytest.raises(ConfigError, match=r"warm_start=.*: x is damaged; give another checkpoint\."):
        find_warm_start(Job(warm_start=old), MODEL, VARIABLES, "")


def test_slots_and_step_are_those_of_the_flags(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(warm_starts, "warm_start", lambda *arguments: given.append(arguments))
    job = Job(warm_start=old, warm_start_step="keep", warm_start_slots="drop")
    (found,) = find_warm_start(job, MODEL, VARIABLES, "")
    found.made(job, ["entry"], "device")  # type: ignore[list-item]
    assert given == [({"w": "choice"}, found.source, ["entry"], "device", "drop", True)]
