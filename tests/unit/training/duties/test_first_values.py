"""The first values of a run: the model's own, then those of another checkpoint, with a report."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import pytest

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.config.job import Job
from ps_train.engine.run_directory.run_files import WARM_START_REPORT
from ps_train.training.duties import first_values as module
from ps_train.training.duties.first_values import first_values

SESSION: Any = "session"


class Warm:
    def __init__(self, calls: list[Any], fails: bool = False) -> None:
        self._calls, self._fails = calls, fails

    def report(self) -> str:
        return "line 1\nline 2"

    def summary(self) -> str:
        return "2 variables taken"

    def write(self, session: Any) -> None:
        self._calls.append(("warm", session))
        if self._fails:
            raise DamagedCheckpointError("x is damaged")


@pytest.fixture
def setting(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[Any] = []

    class Given:
        def __init__(self, *arguments: Any) -> None:
            assert arguments == ("variables", "plan", "on the ps", "device", 7)

        def write(self, session: Any) -> None:
            calls.append(("own", session))

    monkeypatch.setattr(module, "InitialValues", Given)

    def made(**fields: Any) -> tuple[Any, list[Any]]:
        job = Job(seed=7, warm_start="old", **fields)
        ps = types.SimpleNamespace(variables="on the ps", entries=["entry"])
        return types.SimpleNamespace(
            prepared=types.SimpleNamespace(device="device", variables="variables", job=job),
            agreed=types.SimpleNamespace(plan="plan"), step=types.SimpleNamespace(ps=ps),
            console=types.SimpleNamespace(line=calls.append), joined=types.SimpleNamespace(directory=str(tmp_path)),
        ), calls  # fmt: skip

    return made


def found(warm: Warm) -> Any:
    return types.SimpleNamespace(made=lambda job, entries, device: warm)


@pytest.mark.parametrize(("reports", "lines"), [(True, ["line 1", "line 2"]), (False, ["2 variables taken"])])
def test_another_checkpoints_values_come_after_the_models_own(
    setting, tmp_path: pathlib.Path, reports: bool, lines: list[str]
) -> None:
    given, calls = setting(warm_start_report=reports)
    for write in first_values(given, [found(Warm(calls))]):
        write(SESSION)
    assert calls == [("own", SESSION), *lines, ("warm", SESSION)]
    assert (tmp_path / WARM_START_REPORT).read_text() == "line 1\nline 2\n"


def test_without_a_warm_start_there_are_only_the_models_own(setting) -> None:
    given, _ = setting()
    assert len(first_values(given, [])) == 1


def test_a_damaged_checkpoint_is_an_error_of_the_flag_and_leaves_no_report(setting, tmp_path: pathlib.Path) -> None:
    given, calls = setting()
    _, write = first_values(given, [found(Warm(calls, fails=True))])
    with pytest.raises(ConfigError, match="warm_start=old: x is damaged; give another checkpoint"):
        write(SESSION)
    assert not (tmp_path / WARM_START_REPORT).exists()
