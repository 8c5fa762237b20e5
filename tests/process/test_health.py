"""Each rule of health with a real cause, and none of them in a healthy job."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import urllib.request

import pytest

from tests.support.long import long
from tests.support.machine.proc import descendants
from tests.support.machine.processes import Processes, eventually

pytestmark = pytest.mark.timeout(300)

MODELS = "--model=tests.support.models.unhealthy:"
ONE, TWO = ("--num_ps=1", "--num_workers=1"), ("--num_ps=1", "--num_workers=2")


def health_of(processes: Processes, tmp_path, model: str, *flags: str):
    """The findings at the end of a job, and its output."""
    job = processes.run(MODELS + model, "--batch_size=4", "--log_secs=0.5", *flags, f"--model_dir={tmp_path}")
    assert job.wait(200) == 0
    return json.loads((tmp_path / "result.json").read_text())["health"], job.output


def warned(findings) -> set[tuple[str, str]]:
    return {(found["rule"], found["task"]) for found in findings if found["state"] == "warn"}


@pytest.mark.parametrize("update", ["async", long("sync"), long("bounded")])
def test_a_healthy_job_is_called_healthy(processes: Processes, tmp_path, update) -> None:
    # Other work on a machine of two cores may really slow one worker, or its calls.
    limits = "--health_limits=slow_worker:5,sync_share:0.5"
    flags = ("--num_ps=1", "--num_workers=2", "--max_steps=150", limits, f"--update={update}")
    findings, output = health_of(processes, tmp_path, "Healthy", *flags)
    assert warned(findings) == set()
    assert "health:" not in output
    known = {found["rule"] for found in findings if found["state"] == "ok"}
    assert {"sync_share", "input_share", "ps_cpu", "ps_memory", "skipped", "dropped"} <= known
    # Under async, one worker may have made all steps before the other has begun.
    assert "slow_worker" in known or update == "async"


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "task", "model", "flags"),
    [
        ("skipped", "", "NotFinite", (*ONE, "--max_steps=60", "--on_nan=skip")),
        ("sync_share", "", "Large", (*ONE, "--max_steps=200")),
        ("input_share", "", "SlowInput", (*ONE, "--max_steps=60", "--shuffle_buffer=0")),
        long("slow_worker", "worker:1", "Healthy", (*TWO, "--max_steps=200", "--inject_fault=slow:worker:1x4")),
        long("staleness", "", "OneSlow", (*TWO, "--max_steps=300")),
        long("conflict_rate", "", "Healthy", ("--num_ps=1", "--num_workers=3", "--max_steps=200",
                                              "--health_limits=conflict_rate:0.5")),
        long("dropped", "", "Healthy", ("--num_ps=1", "--num_workers=3", "--max_steps=200", "--max_staleness=0")),
        long("balance", "ps:0", "Uncuttable", ("--num_ps=2", "--num_workers=1", "--max_steps=60")),
        long("hold_share", "", "Large:64", (*ONE, "--max_steps=100", "--save_steps=4", "--max_snapshot_mib=0")),
        long("ps_memory", "ps:0", "Large:256", (*ONE, "--max_steps=60", "--health_limits=ps_memory:0.02")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
@pytest.mark.usual(1)
def test_a_real_cause_is_found_and_the_advice_is_shown(processes: Processes, tmp_path, rule, task, model, flags):
    name, _, mib = model.partition(":")
    findings, output = health_of(processes, tmp_path, name, *flags, *([f"--model_arg=mib={mib}"] if mib else []))
    assert (rule, task) in warned(findings)
    (finding,) = [found for found in findings if (found["rule"], found["task"]) == (rule, task)]
    assert f"health: {finding['text']}; {finding['advice']}" in output


def finding_of(address: str, rule: str):
    with urllib.request.urlopen(address + "api/status", timeout=20) as answer:
        findings = json.loads(answer.read())["health"]
    return next(found for found in findings if found["rule"] == rule)


@pytest.mark.long
def test_time_without_a_checkpoint_is_noticed_while_it_passes(processes: Processes, tmp_path) -> None:
    flags = (*ONE, "--save_secs=0", "--save_steps=1000000", "--max_steps=1000000", "--health_limits=unsaved_secs:5")
    job = processes.run(MODELS + "Healthy", "--batch_size=4", "--log_secs=0.5", *flags, f"--model_dir={tmp_path}")
    job.wait_for("status   http://", 100)
    address = re.search(r"status   (http://\S+)", job.output)[1]
    eventually(lambda: finding_of(address, "unsaved_secs")["state"] == "warn", 100, "the warning")
    assert "--save_secs" in finding_of(address, "unsaved_secs")["advice"]
    job.send(signal.SIGINT)
    assert job.wait(60) == 130


def command_name(pid: int) -> str:
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


@pytest.mark.long
def test_a_ps_with_one_core_is_saturated_and_the_gain_of_another_is_predicted(processes: Processes, tmp_path) -> None:
    flags = ("--num_ps=1", "--num_workers=2", "--max_steps=1000000", "--health_limits=ps_cpu:0.5")
    job = processes.run(MODELS + "Large", "--batch_size=4", "--log_secs=0.5", *flags, f"--model_dir={tmp_path}")
    job.wait_for("status   http://", 100)
    address = re.search(r"status   (http://\S+)", job.output)[1]
    ps = next(pid for pid in descendants(job.process.pid) if command_name(pid) == "ps:0")
    for thread in os.listdir(f"/proc/{ps}/task"):
        os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
    eventually(lambda: finding_of(address, "ps_cpu")["state"] == "warn", 150, "the warning")
    assert re.search(r"one more ps.*--num_ps=2", finding_of(address, "ps_cpu")["advice"])
    job.send(signal.SIGINT)
    assert job.wait(60) == 130
