"""The first values of a run: the model's own, then those of another checkpoint, with a report."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.config.job import Job
from ps_train.engine.run_directory.run_files import WARM_START_REPORT
from ps_train.engine.variables.variables import CheckpointEntry, rows_spec
from ps_train.modeling.model import Model
from ps_train.training.duties import first_values as module
from ps_train.training.duties.first_values import first_values

SESSION: Any = "session"
DEVICE = "/device:CPU:0"


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
            assert arguments == ("variables", "plan", "on the ps", DEVICE, 7)

        def write(self, session: Any) -> None:
            calls.append(("own", session))

    monkeypatch.setattr(module, "InitialValues", Given)

    def made(**fields: Any) -> tuple[Any, list[Any]]:
        job = Job(seed=7, warm_start="old", **fields)
        ps = types.SimpleNamespace(variables="on the ps", entries=[])
        return types.SimpleNamespace(
            prepared=types.SimpleNamespace(device=DEVICE, variables="variables", job=job, model=Model()),
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


def test_slots_that_do_not_begin_with_one_number_come_after_the_models_own(setting) -> None:
    given, _ = setting()
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    given.prepared.model.slot_values = lambda: {"w/m": value, "w/unused": value}
    with tf.Graph().as_default(), v1.Session() as session:
        slices = [v1.get_variable(f"w/part_{i}/m", initializer=np.zeros((n, 2), "f")) for i, n in enumerate((1, 2))]
        given.step.ps.entries += [
            CheckpointEntry("w/m", rows_spec([3, 2], begin, one.shape[0]), one) for begin, one in enumerate(slices)
        ]
        _, write = first_values(given, [])
        session.run(v1.global_variables_initializer())
        write(session)
        np.testing.assert_array_equal(np.concatenate(session.run(slices)), value)


def test_a_damaged_checkpoint_is_an_error_of_the_flag_and_leaves_no_report(setting, tmp_path: pathlib.Path) -> None:
    given, calls = setting()
    _, write = first_values(given, [found(Warm(calls, fails=True))])
    with pytest.raises(ConfigError, match="warm_start=old: x is damaged; give another checkpoint"):
        write(SESSION)
    assert not (tmp_path / WARM_START_REPORT).exists()
