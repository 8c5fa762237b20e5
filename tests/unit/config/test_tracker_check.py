"""The package of a tracker, and the sources of flags that the chief is told."""

from __future__ import annotations

import json
import sys
import types

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config import tracker_check
from ps_train.config.job import Job
from ps_train.config.tracker_check import (
    SOURCES_VARIABLE,
    check_tracker,
    flag_sources,
    is_installed,
    tensorboard_command,
    told_sources,
)


def test_a_missing_package_is_refused_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_check, "is_installed", lambda module: module == "wandb")
    check_tracker(Job(track="none"))
    check_tracker(Job(track="wandb"))
    with pytest.raises(ConfigError, match=r"track=mlflow.* needs mlflow: pip install"):
        check_tracker(Job(track="mlflow"))


def test_a_directory_of_the_name_is_not_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "only_a_folder").mkdir()
    (tmp_path / "a_module.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_installed("only_a_folder") and not is_installed("no_such_module")
    assert is_installed("a_module") and "a_module" not in sys.modules


def test_the_command_of_tensorboard_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_check, "is_installed", lambda module: True)
    assert tensorboard_command("runs/a b") == "tensorboard --logdir='runs/a b'"
    monkeypatch.setattr(tracker_check, "is_installed", lambda module: False)
    command = tensorboard_command("runs")
    assert command.startswith("pip install ") and command.endswith("tensorboard --logdir=runs")


def job() -> Job:
    sources = {"max_steps": "the command line", "hidden=64": "a.flags"}
    return Job(max_steps=3, model_arg=("hidden=64",), sources=types.MappingProxyType(sources))


def test_sources_are_those_of_the_user_by_the_names_of_flags() -> None:
    assert flag_sources(job(), {})["max_steps"] == "the command line"
    told = {SOURCES_VARIABLE: json.dumps({"learning_rate": "a.flags"})}
    assert flag_sources(job(), told) == {"learning_rate": "a.flags"}  # a launcher adds flags of its own
    for broken in ("{", "[]", "{}"):
        assert flag_sources(job(), {SOURCES_VARIABLE: broken}) == flag_sources(job(), {})
    assert not any("=" in name for name in flag_sources(job(), {}))


def test_tasks_are_told_the_sources_only_for_a_tracker() -> None:
    assert told_sources(job(), {}) == {}
    tracked = Job(track="wandb", sources={"max_steps": "here"})
    assert json.loads(told_sources(tracked, {})[SOURCES_VARIABLE]) == {"max_steps": "here"}
    assert told_sources(tracked, {SOURCES_VARIABLE: "{}"}) == {SOURCES_VARIABLE: "{}"}
