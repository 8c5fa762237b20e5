"""Clocks that differ by an hour: no time-out, lease, schedule or end depends on them.

The clock of a process is wrong (`wrong_clock.c`).  The clock of its disk is right, as that of a file server would be.
"""

from __future__ import annotations

import json
import pathlib
import platform
import shutil
import subprocess
import sys
import time

import pytest

from tests.hosts.host import Network
from tests.hosts.job import DONE_SECS, Job
from tests.support.long import long

HOUR = 3600
HOLD = """
import sys
from ps_train.cluster.membership.directory_lock import held_directory
with held_directory(sys.argv[1], "worker:0", 10):
    print("held")
"""
"""As a second chief does first; it needs no TensorFlow, so the job is certainly not over."""
SOURCE = pathlib.Path(__file__).with_name("wrong_clock.c")


@pytest.fixture
def library(tmp_path: pathlib.Path) -> pathlib.Path:
    """Debian's faketime is no help: with its 0.9.10, Python's time.sleep fails (clock_nanosleep returns EINVAL)."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.machine() != "x86_64":
        pytest.skip("a wrong clock needs a C compiler and an x86-64 processor")
    made = tmp_path / "wrong_clock.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(SOURCE)], check=True)
    return made


@pytest.mark.parametrize(("update", "chief"), [long("sync", HOUR), long("async", -HOUR), long("bounded", -HOUR)])
def test_a_job_whose_clocks_differ_by_an_hour_ends_right(
    network: Network, library: pathlib.Path, update: str, chief: int
) -> None:
    def clock(offset: int) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "WRONG_CLOCK_SECS": str(offset)}

    job = Job(network, update, 15, "--save_steps=0", "--save_secs=2")
    other = network.host("other", disk_of="worker-0")
    model_dir = f"--model_dir={network.disk}/model"
    clocks = {"ps:0": -chief, "ps:1": 0, "worker:0": chief, "worker:1": 0}
    began = time.monotonic()
    for task, offset in clocks.items():
        job.start(task, env=clock(offset))
    evaluator = other.run(*job.flags, "--job_name=evaluator", model_dir, env=clock(-chief))
    shown = other.command(["date", "+%s"], env=clock(-chief))
    assert shown.wait(20) == 0 and abs(int(shown.output) - time.time() + chief) < 60, shown.output
    job.strike(job.reach, 20)
    second = other.command([sys.executable, "-c", HOLD, f"{network.disk}/model"], env=clock(-chief))
    assert second.wait(60) == 1, second.output
    assert "is in use by worker:0 on worker-0, pid " in second.output
    job.ends_right()
    assert evaluator.wait(DONE_SECS) == 0, evaluator.output
    output = "\n".join(process.output for process in (*job.now.values(), evaluator))
    assert not [line for line in output.splitlines() if "said nothing" in line or "lost" in line]
    result = json.loads((job.hosts["worker:0"].disk / "model" / "result.json").read_text())
    assert 10 < result["wall_secs"] < time.monotonic() - began
    assert 4 <= result["save"]["count"] <= result["wall_secs"] / 2 + 3
    assert f"{job.steps}" in evaluator.lines[-1], evaluator.output
