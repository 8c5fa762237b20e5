"""The run at W&B, with a package that writes down its calls."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import pytest

from ps_train.observe.tracking import wandb_tracker
from ps_train.observe.tracking.tracking import Point, RunEnd
from ps_train.observe.tracking.wandb_tracker import WandbTracker, _has_key


class Run:
    def __init__(self, directory: pathlib.Path) -> None:
        self.dir, self.summary, self.calls = str(directory), dict[str, str](), list[Any]()

    def log(self, values: dict[str, float]) -> None:
        self.calls.append(values)

    def save(self, path: str, base_path: str, policy: str) -> None:
        self.calls.append(("save", pathlib.Path(path).name, policy))

    def finish(self, exit_code: int) -> None:
        self.calls.append(("finish", exit_code))


@pytest.fixture
def begun(tmp_path: pathlib.Path) -> tuple[WandbTracker, Run]:
    tracker, run = WandbTracker(), Run(tmp_path)
    tracker._run, tracker._wandb = run, types.SimpleNamespace(teardown=lambda: run.calls.append("teardown"))
    return tracker, run


def test_points_have_their_step_and_texts_are_the_summary(begun: tuple[WandbTracker, Run]) -> None:
    tracker, run = begun
    points = [Point(step=step, time=0.0, values={"loss": step / 2}) for step in (3, 1)]
    tracker.send(points, {"cause": "full disk"})
    assert run.calls == [{"global_step": 3, "loss": 1.5}, {"global_step": 1, "loss": 0.5}]
    assert run.summary == {"cause": "full disk"}


@pytest.mark.parametrize(("state", "code"), [("done", 0), ("stopped", 130), ("failed", 1)])
def test_the_end_has_its_files_and_exit_code(
    begun: tuple[WandbTracker, Run], tmp_path: pathlib.Path, state: str, code: int
) -> None:
    tracker, run = begun
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "result.json").write_text("{}")
    end: Any = RunEnd(state, [str(tmp_path / "from" / "result.json"), str(tmp_path / "none")])
    tracker.end(end)
    assert run.calls == [("save", "result.json", "now"), ("finish", code), "teardown"]
    assert (tmp_path / "result.json").read_text() == "{}"


def test_an_abandoned_run_ends_the_processes_that_it_has_started(
    begun: tuple[WandbTracker, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, run = begun
    killed: list[int] = []
    monkeypatch.setattr(wandb_tracker.os, "kill", lambda pid, signum: killed.append(pid))
    tracker._others = {11}
    monkeypatch.setattr(wandb_tracker, "_services", lambda: {11})
    tracker.abandon()
    assert killed == [] and run.calls == []  # it is another run's
    monkeypatch.setattr(wandb_tracker, "_services", lambda: {11, 12})
    tracker.abandon()
    assert killed == [12] and run.calls == ["teardown"]


def test_a_key_is_in_the_environment_or_in_a_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    netrc = tmp_path / "netrc"
    monkeypatch.setenv("NETRC", str(netrc))
    assert not _has_key("https://api.wandb.ai")
    netrc.write_text("machine api.wandb.ai login user password key\n")
    netrc.chmod(0o600)
    assert _has_key("https://api.wandb.ai") and not _has_key("https://elsewhere")
    netrc.write_text("machine\n")
    assert not _has_key("https://api.wandb.ai")
    monkeypatch.setenv("WANDB_API_KEY", "x")
    assert _has_key("https://elsewhere")
