"""Clocks that differ by an hour: no time-out, lease, schedule or end depends on them.  Needs Debian's faketime."""

from __future__ import annotations

import json
import pathlib
import time

import pytest

from tests.hosts.host import Network
from tests.hosts.job import DONE_SECS, Job
from tests.support.long import long

HOUR = 3600


def clock(offset: int) -> dict[str, str]:
    """The environment of a process whose clock is wrong; that of its disk, and the monotonic one, are right."""
    found = [*pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    if not found:
        pytest.skip("a wrong clock needs libfaketime (Debian's package faketime)")
    return {
        "LD_PRELOAD": str(found[0]), "FAKETIME": f"{offset:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1",
    }  # fmt: skip


@pytest.mark.parametrize(("update", "chief"), [long("sync", HOUR), long("async", -HOUR), long("bounded", -HOUR)])
def test_a_job_whose_clocks_differ_by_an_hour_ends_right(network: Network, update: str, chief: int) -> None:
    job = Job(network, update, 15, "--save_steps=0", "--save_secs=2")
    other = network.host("other", disk_of="worker-0")
    model_dir = f"--model_dir={network.disk}/model"
    clocks = {"ps:0": -chief, "ps:1": 0, "worker:0": chief, "worker:1": 0}
    began = time.monotonic()
    for task, offset in clocks.items():
        job.start(task, env=clock(offset))
    evaluator = other.run(*job.flags, "--job_name=evaluator", model_dir, env=clock(-chief))
    shown = other.command(["date", "+%s"], env=clock(-chief))
    assert shown.wait(20) == 0 and abs(int(shown.output) - time.time() + chief) < 60
    job.strike(job.reach, 20)
    second = other.run("--model=tests.support.models:Counting", "--max_steps=9", model_dir, env=clock(-chief))
    assert second.wait(60) == 2, second.output
    assert "is in use by worker:0 on worker-0, pid " in second.output
    job.ends_right()
    assert evaluator.wait(DONE_SECS) == 0, evaluator.output
    output = "\n".join(process.output for process in (*job.now.values(), evaluator))
    assert not [line for line in output.splitlines() if "said nothing" in line or "lost" in line]
    result = json.loads((job.hosts["worker:0"].disk / "model" / "result.json").read_text())
    assert 10 < result["wall_secs"] < time.monotonic() - began
    assert 4 <= result["save"]["count"] <= result["wall_secs"] / 2 + 3
    assert f"{job.steps}" in evaluator.lines[-1], evaluator.output
