"""The tracker that --track names."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.config.job import Job
from ps_train.observe.tracking import trackers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mlflow", trackers.MlflowTracker),
        ("wandb", trackers.WandbTracker),
        ("tensorboard-hparams", trackers.HparamsTracker),
        ("none", type(None)),
    ],
)
def test_the_flag_names_the_tracker(monkeypatch: pytest.MonkeyPatch, name: str, kind: type) -> None:
    made: list[Any] = []
    monkeypatch.setattr(trackers, "Tracking", lambda *arguments: made.append(arguments))
    board: Any = type("Board", (), {"evaluations": "evaluations", "health": "health"})()
    trackers.make_tracking(Job(track=name), board, lambda summary, step: None)
    ((tracker, told, findings),) = made
    assert type(tracker) is kind and told == name and isinstance(findings, trackers.Findings)
