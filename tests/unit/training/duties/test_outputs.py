"""What the chief leaves behind: uploads first, then exports and advice."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.config.error_report import REPORT_VARIABLE
from ps_train.training.duties import outputs
from ps_train.training.duties.duty import LastStep
from ps_train.training.duties.outputs import Advising, Exporting, Uploading

LAST = LastStep(70, "/spool/model.ckpt-70", "s3://b/run/model.ckpt-70")


class Told:
    """The console, the tracker and the model directory, in the order of their calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.console = types.SimpleNamespace(line=lambda text: self.calls.append(text))
        self.tracking: Any = types.SimpleNamespace(tag=lambda name, text: self.calls.append((name, text)))
        directory = types.SimpleNamespace(flush=lambda secs: self.calls.append(("flush", secs)), name="s3://b/run")
        self.joined: Any = types.SimpleNamespace(model_directory=directory)
        self.job = types.SimpleNamespace(final_export_dir="out", export_dir="export")
        self.setting: Any = types.SimpleNamespace(
            console=self.console, prepared=types.SimpleNamespace(job=self.job, model="model", source="source")
        )


def test_the_checkpoint_is_named_when_it_is_uploaded() -> None:
    told = Told()
    Uploading(told.setting, told.joined, told.tracking).finished(LAST)
    assert told.calls == [("flush", 600.0), f"checkpoint {LAST.shown}", ("checkpoint", LAST.shown)]


def test_the_checkpoint_that_can_be_read_here_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    told, given = Told(), []
    monkeypatch.setattr(outputs, "prepare_export", lambda path: f"{path}/3")
    monkeypatch.setattr(outputs, "export_model", lambda *arguments: (given.append(arguments), arguments[-1])[1])
    Exporting(told.setting, told.tracking).finished(LAST)
    assert given == [(told.job, "model", "source", LAST.path, "out/3")]
    assert told.calls == ["exported out/3", ("export", "out/3")]


@pytest.mark.parametrize("is_call", [True, False])
def test_advice_is_that_for_a_call_or_for_a_command(monkeypatch: pytest.MonkeyPatch, is_call: bool) -> None:
    told, given = Told(), []
    monkeypatch.delenv(REPORT_VARIABLE, raising=False)
    if is_call:
        monkeypatch.setenv(REPORT_VARIABLE, "x")

    def advice(*arguments: Any, **options: Any) -> list[str]:
        given.append((*arguments, options))
        return ["one", "two"]

    monkeypatch.setattr(outputs, "advice", advice)
    Advising(told.setting, told.joined).finished(LAST)
    assert told.calls == ["one", "two"] and given == [("s3://b/run", "export", 70, {"is_call": is_call})]
