"""Advice that the job does not follow already and can follow; the gain of one more ps."""

from __future__ import annotations

import dataclasses
import itertools
import re

import pytest

from ps_train.observe.status import advice, health
from ps_train.observe.status.advice import gain_of_one_more_ps
from tests.support.status.job import a_status, job_of, step_time

JOBS = [
    job_of(update=update, **fields)
    for update, fields in itertools.product(
        ("async", "bounded", "sync"),
        [
            {},
            {"accumulate": 8, "clip_global_norm": 1.0, "pull_codec": "bfloat16", "push_codec": "bfloat16"},
            {"sharding": "dynamic", "batch_size": "32..256", "pull_codec": "bfloat16"},
        ],
    )
]
JOBS += [
    job_of(update="sync", backup_workers=1, worker_hosts=("c:1", "d:1", "e:1")),
    job_of(update="async", prefetch_pulls=1),
    job_of(update="async", max_staleness=8),
    job_of(update="sync", rack="a"),
    job_of(update="async", ps_hosts=(), ps_on_workers=True),
    job_of(update="sync", local_steps="16"),
    job_of(update="sync", local_steps="16", round_secs=1.0),
]


PARTS = [(rule, part) for rule in health.RULES for part in ("pull", "push", "wait", "update")]
PARTS = [(rule, part) for rule, part in PARTS if part == "pull" or rule.name == "sync_share"]


@pytest.mark.parametrize(("rule", "part"), PARTS, ids=[f"{rule.name}-{part}" for rule, part in PARTS])
def test_no_advice_is_followed_already_or_impossible(rule, part):
    times = {"worker:0": step_time(**{part: 0.009})}
    for job in JOBS:
        text = rule.advice(a_status(step_time=times), job, "worker:0", 0.5)
        assert "None" not in text and ", or or" not in text
        assert not (job.ps_on_workers and "--num_ps" in text), "there are as many ps as workers"
        for name, value in re.findall(r"--(\w+)=([\w.]+\w)", text):
            if name in ("num_ps", "save_secs"):
                continue
            present = getattr(job, name)
            assert str(present) != value, f"{text!r} for a job with {name}={present}"
            kind = type(present) if isinstance(present, int | float) and value.isdigit() else str
            workers = {"worker_hosts": ("c:1", "d:1", "e:1", "f:1")} if name == "backup_workers" else {}
            others = {"backup_workers": 0} if name == "update" else {}
            dataclasses.replace(job, **workers, **others, **{name: kind(value)})  # or a ConfigError


def test_rounds_that_wait_for_a_slow_worker_may_take_equal_time():
    times = {"worker:0": step_time(wait=0.009)}
    found = [advice.sync(a_status(step_time=times), job, "worker:0", 0.5) for job in JOBS[-2:]]
    assert ["--round_secs=1" in text for text in found] == [True, False]


def test_bounded_is_not_advised_under_bounded():
    texts = [rule.advice(a_status(), job_of(update="bounded"), "worker:0", 0.5) for rule in health.RULES]
    assert not any("bounded" in text for text in texts)


@pytest.mark.parametrize("growth", [None, 0.9, 1.5])
def test_advice_for_a_stream_is_not_about_files(growth):
    stream = {**a_status()["stream"], "growth": growth}
    texts = [rule.advice(a_status(stream=stream), job_of(), "worker:0", 0.5) for rule in health.RULES]
    assert not any("disk" in text or "dynamic" in text for text in texts)
    text = advice.input(a_status(stream=stream), job_of(), "", 0.5)
    assert ("fewer workers would do" in text) == (growth == 0.9)
    assert "local disk" in advice.input(a_status(stream=None), job_of(), "", 0.5)


def test_a_slow_worker_among_workers_of_one_machine_is_not_a_slow_machine():
    workers = [{**a_status()["workers"][0], "task": f"worker:{i}"} for i in range(2)]
    near = [{**worker, "location": f"{worker['task']} on host-b, pid {i}"} for i, worker in enumerate(workers)]
    text = advice.slow_worker(a_status(workers=near), job_of(), "worker:1", 2.0)
    assert "all workers share host-b" in text and "look at the machine" not in text
    far = [{**worker, "location": f"{worker['task']} on host-{i}, pid 4"} for i, worker in enumerate(workers)]
    assert "look at the machine of worker:1 on host-1" in advice.slow_worker(
        a_status(workers=far), job_of(), "worker:1", 2
    )


def test_a_choice_in_words():
    assert [advice._either(list(means)) for means in ("a", "ab", "abc")] == ["a", "a or b", "a, b or c"]


def busy(cpu, compute_secs, workers=4, num_ps=1, rate=100.0):
    status = a_status()
    names = [f"worker:{index}" for index in range(workers)]
    worker = {**status["workers"][0], "steps_per_sec": rate / workers}
    return {
        **status,
        "steps_per_sec": rate,
        "step_time": {name: step_time(compute_secs) for name in names},
        "workers": [{**worker, "task": name} for name in names],
        "ps": [{**status["ps"][0], "task": f"ps:{index}", "cpu": cpu, "cores": 1} for index in range(num_ps)],
    }


def test_a_ps_that_does_all_the_work_is_worth_a_second_one():
    assert gain_of_one_more_ps(busy(1.0, compute_secs=0.001)) == pytest.approx(2.0, rel=0.15)


def test_an_idle_ps_is_not():
    assert gain_of_one_more_ps(busy(0.01, compute_secs=0.04)) == pytest.approx(1.0, rel=0.02)


def test_a_third_ps_gives_less_than_a_second_one():
    assert gain_of_one_more_ps(busy(1.0, 0.001, num_ps=2)) == pytest.approx(1.5, rel=0.15)


@pytest.mark.parametrize(
    "changes", [{"steps_per_sec": None}, {"step_time": {}}, {"workers": []}, {"steps_per_sec": 0.0}]
)
def test_too_little_is_known(changes):
    assert gain_of_one_more_ps({**busy(1.0, 0.001), **changes}) is None


def test_a_ps_that_has_not_said_anything_yet():
    assert gain_of_one_more_ps(busy(None, 0.001)) is None
