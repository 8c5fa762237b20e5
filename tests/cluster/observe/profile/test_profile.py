"""Records on their way to the chief, over a real ps."""

from __future__ import annotations

import time

import pytest

from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.observe.profile import profile as module
from ps_train.observe.profile.profile import Profile
from tests.support.clusters.servers import POOL
from tests.support.machine.processes import eventually
from tests.unit.observe.profile.test_step_parts import one_step, statistics

FETCHES = {"train": ["a"], "step": "s", "examples": "e"}
BASE = 1_795_000_000_000_000_000


def run(fetches, options=None, run_metadata=None):
    if run_metadata is not None:
        at = (time.time_ns() - BASE) // 1000
        run_metadata.step_stats.CopyFrom(statistics(*one_step(at=at)))
    time.sleep(0.001)
    return {"step": 1}


@pytest.fixture
def target():
    return POOL.take(1)[0].target


def profile_of(task, others, directory, target, lines):
    return Profile("0:3", task, others, str(directory), lambda: [target], lines.append)


def make_steps(profile, count=3):
    traced = profile.tracer.begin(0)(run)
    for _ in range(count):
        traced(FETCHES)


def test_the_chief_joins_what_the_others_recorded(target, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 50)  # several pieces
    lines = []
    chief = profile_of("worker:0", ["worker:1"], tmp_path, target, lines)
    worker = profile_of("worker:1", [], "", target, lines)
    make_steps(worker)
    make_steps(chief)
    eventually(lambda: lines, 30, "the table")
    (text,) = lines
    assert "steps recorded worker:0: 3 worker:1: 3," in text
    assert (tmp_path / "plugins/profile/step-0/steps.trace.json.gz").exists()
    assert KeyValueStore(target, "ps:0").items() == {}, "heartbeats read that table often"


def test_a_worker_that_never_answers_is_named(target, tmp_path, caplog):
    lines = []
    chief = profile_of("worker:0", ["worker:1"], tmp_path, target, lines)
    make_steps(chief)
    began = time.monotonic()
    chief.close(0.5)
    assert time.monotonic() - began < 20
    eventually(lambda: lines, 20, "the table")
    assert "worker:1" in caplog.text
    assert "steps recorded worker:0: 3," in lines[0]


def test_the_end_hands_over_a_part_and_a_chief_without_steps_prints_the_others(target, tmp_path, caplog):
    lines = []
    worker = profile_of("worker:1", [], "", target, lines)
    make_steps(worker, count=2)
    worker.finish()
    chief = profile_of("worker:0", ["worker:1"], tmp_path, target, lines)
    chief.finish()
    assert "steps recorded worker:1: 2," in lines[0]
    assert "worker:0" in caplog.text


def test_a_ps_that_is_gone_loses_the_profile_and_nothing_else(tmp_path, caplog):
    lines = []
    chief = profile_of("worker:0", ["worker:1"], tmp_path, "grpc://127.0.0.1:1", lines)
    make_steps(chief)
    chief.finish()
    assert "the profile of worker:0 is lost" in caplog.text
    assert lines == []


def test_without_the_flag_nothing_is_handed_over(target, tmp_path):
    lines = []
    profile = Profile("", "worker:0", ["worker:1"], str(tmp_path), lambda: [target], lines.append)
    make_steps(profile)
    began = time.monotonic()
    profile.finish()
    profile.close()
    assert time.monotonic() - began < 1
    assert not lines
