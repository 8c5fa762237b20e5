"""The parts that a job asks for, in the one order in which they may stand."""

from __future__ import annotations

import itertools
import types
from typing import Any

import pytest

from ps_train.config.job import Job
from ps_train.engine.step.parts import order
from ps_train.engine.step.parts.order import parts_of


def made(job: Job, state: bool, monkeypatch: pytest.MonkeyPatch, *features: str) -> list[str]:
    """Names of the parts of a job; each stands for itself."""
    monkeypatch.setattr(order, "pulls_ahead", lambda spec: ["PullAhead"] if job.prefetch_pulls else [])
    monkeypatch.setattr(
        order, "following_parts", lambda spec, update: ["Following"] if ".." in str(job.batch_size) else []
    )
    monkeypatch.setattr(order, "push_codecs", lambda spec, scaled: ["PushCodec"] if job.push_codec != "none" else [])
    for name in ("Transforms", "LossScaling", "StateOfModel", "Sharding", "EventCutTable"):
        monkeypatch.setattr(order, name, lambda *arguments, name=name: name)
    spec: Any = types.SimpleNamespace(job=job, variables=types.SimpleNamespace(state=lambda: ["mean"] if state else []))
    update: Any = types.SimpleNamespace(scaled=None)
    rest: Any = features
    return [str(part) for part in parts_of(spec, update, rest)]


ALL = [
    "PullAhead",
    "Transforms",
    "LossScaling",
    "Following",
    "PushCodec",
    "StateOfModel",
    "Sharding",
    "EventCutTable",
    "Rack",
]
FIELDS: dict[str, dict[str, Any]] = {
    "PullAhead": {"prefetch_pulls": 1},
    "Transforms": {"l2": 0.1},
    "LossScaling": {"compute_dtype": "float16"},
    "PushCodec": {"push_codec": "bfloat16"},
    "Sharding": {"sharding": "dynamic"},
}


def test_a_plain_job_has_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(Job(), False, monkeypatch) == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_features_together_keep_the_order(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for names in itertools.combinations(FIELDS, count):
        fields = {key: value for name in names for key, value in FIELDS[name].items()}
        found = made(Job(**fields), True, monkeypatch, "Rack")
        assert found == [name for name in ALL if name in {*names, "StateOfModel", "Rack"}]


def test_cuts_need_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(sharding="dynamic", save_event_secs=100)
    assert made(job, False, monkeypatch) == ["Sharding", "EventCutTable"]


def test_a_batch_size_that_follows_comes_before_the_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(batch_size="8..64", push_codec="bfloat16", l2=0.1)
    assert made(job, False, monkeypatch) == ["Transforms", "Following", "PushCodec"]
