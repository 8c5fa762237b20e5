"""The soak test finds a leak of few bytes a call, and takes neither noise nor peaks for one."""

from __future__ import annotations

import dataclasses
import logging
import mmap
import os
import random
from collections.abc import Callable

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import RepeatingSession
from tests.trials.soak import report
from tests.trials.soak.job import LAUNCHER, Outcome, Plan, errors_of, refused_in
from tests.trials.soak.sampling import disk_of, sample_of
from tests.trials.soak.trial import all_errors, verdicts_of
from tests.trials.soak.verdict import KEPT_BYTES, MIB, Disk, Sample, judge

PAGE, BASE = 4096, 300 * MIB
EVERY = 2_000
PLAN = Plan(calls=300_000)


def pages(size: float) -> int:
    return int(size) // PAGE * PAGE


def samples(
    leaked: Callable[[int], float] = lambda calls: 0.0,
    dropped: Callable[[int], float] = lambda calls: 0.0,
    fds: Callable[[int], int] = lambda calls: 50,
    noise: float = 0.3 * MIB,
    calls: int = 300_000,
    kept: Callable[[int], int] = lambda calls: 0,
) -> list[Sample]:
    """A process that fills the window of request ids, then keeps its size but for what is leaked.

    Args:
      leaked: bytes, by the number of calls.
      dropped: bytes of files that the kernel has dropped.
      kept: rendezvous that TensorFlow keeps.
    """
    chance, found = random.Random(3), []
    for at in range(0, calls, EVERY):
        filled = min(at, 100_000) * 150
        anonymous = pages(BASE + filled + leaked(at) + abs(chance.gauss(0, noise)))
        rss = anonymous + pages(200 * MIB - dropped(at))
        found.append(Sample(at, rss, rss // 2, anonymous, fds(at), 30, kept(at)))
    return found


def disk(
    events: Callable[[float], float] = lambda hours: 50_000 * hours,
    others: Callable[[float], float] = lambda hours: 0.0,
    files: Callable[[float], float] = lambda hours: 0.0,
) -> list[Disk]:
    """A model directory in an hour; each argument says what comes to it by the number of hours."""
    hours = [secs / 3600 for secs in range(0, 3600, 30)]
    return [Disk(h * 3600, int(10_000 + events(h)), int(MIB + others(h)), int(20 + files(h))) for h in hours]


def outcome(**fields: object) -> Outcome:
    right = Outcome(
        series={name: samples() for name in (*PLAN.tasks, LAUNCHER)},
        disk=disk(),
        exit_code=0,
        result={"global_step": 300_000, "examples": 1_200_000},
        refused=3,
        secs=600.0,
        left=[],
        last_lines=["checkpoint"],
    )
    return dataclasses.replace(right, **fields)


def errors(found: Outcome, plan: Plan = PLAN) -> list[str]:
    return all_errors(plan, found, verdicts_of(plan, found, 120_000), 120_000)


def test_noise_is_no_leak():
    judged = judge(samples(noise=2 * MIB))
    assert judged is not None and judged.exceeded == []


def test_a_leak_of_20_bytes_a_call_is_found_and_measured():
    judged = judge(samples(lambda calls: 20 * calls))
    assert judged is not None and judged.exceeded == ["anonymous", "rss"]
    assert judged.growth["rss"] == pytest.approx(20 * 100_000, rel=0.15)


def test_what_tensorflow_keeps_is_no_leak_of_ours_and_hides_none():
    def kept(calls):
        return calls // 30

    judged = judge(samples(lambda calls: KEPT_BYTES * kept(calls), kept=kept))
    assert judged is not None and judged.exceeded == [] and judged.growth["rss"] > 2 * MIB
    judged = judge(samples(lambda calls: KEPT_BYTES * kept(calls) + 20 * calls, kept=kept))
    assert judged is not None and judged.exceeded == ["anonymous", "rss"]


def test_a_leak_by_the_mebibyte_is_found():
    judged = judge(samples(lambda calls: pages(20 * calls) // MIB * MIB))
    assert judged is not None and judged.exceeded == ["anonymous", "rss"]


@pytest.mark.parametrize("at", [170_000, 210_000, 250_000])
def test_a_table_that_doubles_once_is_found(at: int):
    judged = judge(samples(lambda calls: 4 * MIB if calls > at else 0))
    assert judged is not None and judged.exceeded == ["anonymous", "rss"]


def test_a_peak_now_and_then_is_no_leak():
    judged = judge(samples(lambda calls: 40 * MIB if calls % 20_000 == 0 else 0))
    assert judged is not None and judged.exceeded == []


def test_a_leak_is_found_though_the_kernel_drops_pages_of_files():
    judged = judge(samples(lambda calls: 20 * calls, dropped=lambda calls: 20 * calls))
    assert judged is not None and judged.exceeded == ["anonymous"]


def test_a_descriptor_that_stays_open_every_50_000_calls_is_found():
    judged = judge(samples(fds=lambda calls: 50 + calls // 50_000))
    assert judged is not None and judged.exceeded == ["fds"]


@pytest.mark.parametrize("few", [samples(calls=200_000), samples()[::20], []])
def test_too_few_calls_or_samples_are_not_judged(few: list[Sample]):
    assert judge(few) is None


def test_the_warm_up_does_not_count():
    judged = judge(samples(lambda calls: 1000 * min(calls, 120_000)))
    assert judged is not None and judged.exceeded == []


def test_a_job_that_did_what_it_must_has_no_errors():
    assert errors(outcome()) == []


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"exit_code": 1}, "the job ended with 1"),
        ({"result": {"global_step": 299_999, "examples": 1_200_000}}, "global_step is 299999 in place of 300000"),
        ({"result": {"global_step": 300_000, "examples": 1_199_996}}, "examples is 1199996"),
        ({"result": {}}, "global_step is None"),
        ({"left": ["python -m ps_train"]}, "still alive after the job: python -m ps_train"),
        ({"exit_code": 1, "left": ["python -m ps_train"]}, "still alive after the job"),
        ({"series": {"ps:0": []}}, "ps:0 was never sampled"),
        ({"series": {"ps:0": samples(lambda calls: 20 * calls)}}, "ps:0 is not flat: anonymous, rss"),
        ({"disk": disk(events=lambda hours: 2 * MIB * hours)}, "the model directory is not flat: events"),
        ({"disk": disk(others=lambda hours: 2 * MIB * hours)}, "the model directory is not flat: others"),
        ({"disk": disk(files=lambda hours: 6 * hours)}, "the model directory is not flat: files"),
        ({"series": {"ps:0": samples()[::20]}}, "ps:0 has fewer than 20 samples"),
    ],
)
def test_everything_that_is_wrong_is_said(wrong: dict, error: str):
    assert any(error in line for line in errors(outcome(**wrong)))


def test_a_short_run_is_not_judged_but_checked():
    plan = Plan(calls=1000)
    short = outcome(result={"global_step": 1000, "examples": 4000}, series={"ps:0": samples(lambda calls: 20 * calls)})
    assert errors(short, plan) == []
    assert "not judged" in report.table(verdicts_of(plan, short, 120_000), 120_000)
    assert errors(dataclasses.replace(short, exit_code=137), plan) != []


@pytest.mark.parametrize("update, steps", [("async", 20), ("bounded", 20), ("sync", 10)])
def test_workers_make_the_steps_of_sync_together(update: str, steps: int):
    assert Plan(calls=10, workers=2, update=update).max_steps == steps


def test_the_result_shows_verdict_numbers_and_course():
    leaks = outcome(series={"ps:0": samples(), "worker:0": samples(lambda calls: 20 * calls, noise=0)})
    part = report.Part(PLAN, leaks, verdicts_of(PLAN, leaks, 120_000))
    text = report.text([part], 120_000, "2030-01-02", "python -m tests.trials soak")
    (row,) = [line for line in text.splitlines() if line.startswith("| worker:0 ")]
    assert "| +1.91 | +1.91 | +0.95 | 0.00 | +1.91 | +1.91 | 50 to 50 | 30 to 30 | no: anonymous, rss |" in row
    assert "**Beside what TensorFlow keeps, the memory of the processes is not flat.**" in text
    assert "| 300000 | 5" in text and "2030-01-02" in text
    assert "| event files, MiB | 0.022 to 0.052 | +0.048 | yes |" in text


def test_a_later_part_resumes_and_makes_as_many_calls():
    plan = Plan(calls=10, workers=2, part=2)
    assert (plan.first_step, plan.max_steps) == (40, 60)


def test_the_sizes_of_a_model_directory_are_those_of_its_event_files_and_of_the_others(tmp_path):
    (tmp_path / "export").mkdir()
    for name, size in (("events.out.tfevents.1", 30), ("export/a", 5), ("checkpoint", 7)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert disk_of(tmp_path, secs=3.0) == Disk(3.0, 30, 12, 3)


def test_a_sample_sees_memory_files_and_threads_of_a_process():
    before = sample_of(os.getpid(), calls=7)
    # Much more than what other threads of this process hold meanwhile, and pages that no allocator keeps or reuses.
    held = mmap.mmap(-1, 256 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for _ in range(256):
        held.write(os.urandom(MIB))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    after = sample_of(os.getpid(), calls=8)
    for descriptor in opened:
        os.close(descriptor)
    assert before is not None and after is not None and before.calls == 7
    assert after.fds == before.fds + 5 and before.threads >= 1
    assert 0 < after.pss <= after.rss  # other processes that map the same libraries change how much is this one's share
    for name in ("rss", "anonymous"):
        assert len(held) * 0.9 < getattr(after, name) - getattr(before, name) < len(held) * 1.5


def test_a_process_that_has_ended_has_no_sample():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert sample_of(pid, calls=1) is None


def test_refused_calls_are_counted_by_what_the_session_logs(caplog, monkeypatch):
    refusals = [
        tf.errors.AbortedError(None, None, "The same RunGraph (Worker) request was received twice. id")
        for _ in range(2)
    ]

    def run(self, *arguments):
        if refusals:
            raise refusals.pop()

    monkeypatch.setattr(v1.Session, "run", run)
    with caplog.at_level(logging.DEBUG, "ps_train.cluster.sessions.calls"), tf.Graph().as_default() as graph:
        RepeatingSession("", graph=graph, config=v1.ConfigProto()).run("anything")
    assert refused_in(["step 1/2", *(f"[worker:1] {line}" for line in caplog.messages)]) == 2


def test_a_failed_job_shows_its_last_lines():
    (error,) = errors_of(PLAN, outcome(exit_code=1, last_lines=["before", "ps_train: error: it broke"]))
    assert error.endswith("before\n  ps_train: error: it broke")
