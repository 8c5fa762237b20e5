"""The launcher starts again what failed, where it was told to, and knows when to give up."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.support.machine.proc import task_of
from tests.support.machine.processes import Processes

RESTART = "--max_restarts=3"


@pytest.mark.long
def test_a_ps_and_a_worker_that_are_killed_are_started_again_and_the_job_makes_all_its_steps(
    processes: Processes,
) -> None:
    model_dir = processes.directory / "model"
    run = processes.run(
        RESTART, "--model=tests.support.models.small:SlowCounting", "--max_steps=250", "--log_secs=0.1",
        "--save_steps=50", "--shuffle_buffer=0", "--heartbeat_timeout_secs=3", f"--model_dir={model_dir}",
    )  # fmt: skip
    run.wait_for("step ")
    os.kill(task_of(run.pid, "worker:1"), 35)  # a real-time signal, which has no name
    run.wait_for("worker:1 was ended by signal 35 (SIGRTMIN+1); it will restart in 0.5s (restart 1 of 3)")
    os.kill(task_of(run.pid, "ps:0"), signal.SIGKILL)
    run.wait_for("ps:0 was ended by signal 9 (SIGKILL); it will restart")
    run.wait_for("ps:0 restarted; restored step", 40)
    assert run.wait(80) == 0, run.output
    assert json.loads((model_dir / "result.json").read_text())["global_step"] == 250
    assert not run.descendants()


@pytest.mark.long
def test_restarts_are_bounded_and_the_last_lines_of_the_failed_child_are_shown(processes: Processes) -> None:
    run = processes.run(
        RESTART, "--max_restarts=1", "--num_workers=1", "--model=tests.support.models.small:FailsLater",
        f"--model_dir={processes.directory}/m",
    )  # fmt: skip
    assert run.wait(60) == 1
    assert len(re.findall(r"worker:0 failed with exit code 1; it will restart", run.output)) == 1
    assert "the last lines of worker:0:" in run.output and "my own assertion" in run.output


@pytest.mark.long
def test_a_wrong_configuration_is_not_tried_again(processes: Processes) -> None:
    run = processes.run(RESTART, "--model=tests.support.models.small:Vector", f"--model_dir={processes.directory}/m")
    assert run.wait(40) == 2
    assert "started again" not in run.output
