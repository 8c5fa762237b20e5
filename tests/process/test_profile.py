"""--profile with real processes: one trace of all tasks on one clock, and a table that adds up."""

from __future__ import annotations

import bisect
import gzip
import json
import re
import signal
import statistics

import pytest

from tests.support.machine.processes import Process, TestCluster, eventually

pytestmark = pytest.mark.timeout(300)

TASKS = ("worker:0", "worker:1")
MODEL = "--model=tests.support.models.small:Linear"


@pytest.fixture
def profiled(processes):
    def start(profile: str, num_ps: int, *flags: str) -> tuple[TestCluster, list[Process]]:
        cluster = TestCluster(processes, num_ps, 2, MODEL, f"--profile={profile}", *flags)
        _, workers = cluster.start_all()
        return cluster, workers

    return start


def trace_of(cluster: TestCluster, step: int) -> list[dict]:
    """The events, each with the names of its process and lane, and with its end."""
    directory = cluster.model_dir / "plugins" / "profile" / f"step-{step}"
    assert (directory / "steps.xplane.pb").stat().st_size > 1000
    with gzip.open(directory / "steps.trace.json.gz") as file:
        events = json.load(file)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return [
        {**e, "process": processes[e["pid"]], "lane": lanes[e["pid"], e["tid"]], "end": e["ts"] + e["dur"]}
        for e in events
        if e["ph"] == "X"
    ]


def table_in(output: str) -> dict[str, dict[str, float]]:
    """Milliseconds per step, by task and column."""
    lines = output.split("\n")
    (head,) = [line for line in lines if line.startswith("ms per step")]
    rows = [line.split() for line in lines[lines.index(head) + 1 :][:2]]
    columns = head.removeprefix("ms per step").split()
    return {row[0]: dict(zip(columns, map(float, row[1:]), strict=True)) for row in rows}


def uncertainty_in(output: str) -> float:
    return float(output.partition("clocks agree to ")[2].partition(" us")[0])


@pytest.mark.parametrize(("num_ps", "update"), [(2, "sync"), pytest.param(1, "async", marks=pytest.mark.long)], ids=str)
def test_all_tasks_are_in_one_trace_and_the_sums_agree_with_the_measured_step(profiled, num_ps, update, tmp_path):
    timed = ("--model=tests.support.models.small:Timed", f"--model_arg=directory={tmp_path}", "--steps_per_run=1")
    cluster, (chief, worker) = profiled("40:30", num_ps, f"--update={update}", "--max_steps=120", *timed)
    assert (chief.wait(200), worker.wait(60)) == (0, 0)
    events, table = trace_of(cluster, 40), table_in(chief.output)
    assert {e["process"] for e in events} == {*TASKS} | {f"ps:{index}" for index in range(num_ps)}
    for task, process in zip(TASKS, (chief, worker), strict=True):
        calls = [e for e in events if (e["process"], e["lane"]) == (task, "1 calls")]
        assert len(calls) == 30
        parts = table[task]
        named = sum(parts[part] for part in ("input", "pull", "compute", "push", "wait", "update", "other"))
        assert named == pytest.approx(parts["step"], rel=0.01)
        if update == "sync":  # rounds are counted by all workers, so the model's own time of a step is known
            times = [float(line) for line in (tmp_path / str(process.pid)).read_text().split()]
            first = int(calls[0]["name"].split()[1]) - 1
            took = (times[first + 29] - times[first - 1]) * 1000 / 30
            assert parts["step"] + parts["tracing"] == pytest.approx(took, rel=0.1)
    check_one_clock(events, uncertainty_in(chief.output))


def check_one_clock(events: list[dict], uncertainty_us: float) -> None:
    """Whatever a task receives ends after the sender's call began, and lies in the call that it belongs to."""
    calls = {
        task: [e for e in events if (e["process"], e["lane"]) == (task, "1 calls")] for task in ("worker:0", "worker:1")
    }
    received = [e for e in events if "receive" in e["lane"]]
    assert len(received) > 60
    for event in received:
        own = calls[event["args"]["of"]]
        around = [c for c in own if c["ts"] - uncertainty_us <= event["end"] <= c["end"] + uncertainty_us]
        assert around, event
    lanes = {}
    for event in sorted(events, key=lambda e: e["ts"]):
        key = event["process"], event["lane"]
        assert event["ts"] >= lanes.get(key, -1.0) - 0.01, "events of a lane do not overlap"
        lanes[key] = event["end"]


@pytest.mark.long
def test_under_sync_an_update_follows_the_pushes_of_both_workers(profiled):
    """Only one clock for all can show this: the update in one worker's call comes after the other's message."""
    cluster, (chief, worker) = profiled("40:20", 1, "--update=sync", "--max_steps=150")
    assert (chief.wait(200), worker.wait(60)) == (0, 0)
    events = trace_of(cluster, 40)
    updates = [e["ts"] for e in events if e["args"].get("type") == "ResourceApplyGradientDescent" and "w" in e["name"]]
    own = {task: [e for e in events if (e["process"], e["lane"]) == (task, "1 calls")] for task in TASKS}
    began, ended = max(some[0]["ts"] for some in own.values()), min(some[-1]["end"] for some in own.values())
    rounds = sorted(ts for ts in updates if began <= ts <= ended)
    assert len(rounds) >= 8
    for task in TASKS:
        there = [e for e in events if e["process"] == "ps:0" and e["lane"].startswith(f"{task} receive")]
        pushes = [e["end"] for e in there if e["args"]["part"] == "push" and rounds[0] < e["end"] < rounds[-1]]
        assert len(pushes) > len(rounds) / 2  # TensorFlow leaves some transfers out of its records
        followed_by = [bisect.bisect(rounds, end) for end in pushes]
        assert len(set(followed_by)) == len(followed_by), "no worker pushes twice in a round"


@pytest.mark.long
def test_a_worker_that_is_killed_while_it_records_is_named_and_delays_nobody(profiled):
    cluster, (chief, worker) = profiled(
        "20:1000", 1, "--update=async", "--max_steps=4000", "--heartbeat_timeout_secs=3"
    )
    worker.wait_for("training from global step", 120)
    eventually(lambda: re.search(r"^step \d\d+/", chief.output, re.MULTILINE), 120, "progress")
    worker.send(signal.SIGKILL)
    assert chief.wait(250) == 0
    assert "the profile has no steps of worker:1" in chief.output
    events = trace_of(cluster, 20)
    assert {e["process"] for e in events} == {"worker:0", "ps:0"}


def test_a_job_that_ends_early_writes_what_there_is(profiled):
    cluster, (chief, worker) = profiled("50:1000", 1, "--update=async", "--max_steps=200")
    assert (chief.wait(200), worker.wait(60)) == (0, 0)
    steps = re.findall(r"worker:\d: (\d+)", chief.output.partition("steps recorded ")[2].partition(",")[0])
    assert 0 < sum(map(int, steps)) <= 150
    calls = [e for e in trace_of(cluster, 50) if e["lane"] == "1 calls"]
    assert calls


@pytest.mark.long
def test_a_profile_beyond_the_end_has_no_effect(profiled):
    cluster, (chief, worker) = profiled("500:10", 1, "--max_steps=30")
    assert (chief.wait(200), worker.wait(60)) == (0, 0)
    assert "profile=500:10 (from the command line) has no effect: the job ends at max_steps=30" in chief.output
    assert not (cluster.model_dir / "plugins").exists()


@pytest.mark.long
def test_the_middle_of_the_steps_is_like_the_untraced_ones(profiled):
    """Without tracing's own time: the table says what both took."""
    _, (chief, worker) = profiled("200:100", 1, "--update=async", "--max_steps=2000")
    assert (chief.wait(200), worker.wait(60)) == (0, 0)
    table = table_in(chief.output)
    ratio = statistics.mean(row["step"] / row["untraced"] for row in table.values())
    assert 0.3 < ratio < 3
