"""--log_dir: a log and, after a failure, an error file for each task, however it was started."""

from __future__ import annotations

import json
import os
import pathlib
import signal

import pytest

from tests.support.machine.proc import task_of
from tests.support.machine.processes import Processes, TestCluster, eventually


def error_of(directory: pathlib.Path, task: str) -> dict:
    return json.loads((directory / f"{task}.error.json").read_text())


def test_every_task_of_a_local_cluster_has_a_log_and_an_old_error_is_gone(processes: Processes) -> None:
    logs = processes.directory / "logs"
    logs.mkdir()
    (logs / "worker_0.error.json").write_text("{}")
    run = processes.run("--max_steps=30", "--log_dir=logs", "--model_dir=m")
    assert run.wait(80) == 0, run.output
    assert sorted(path.name for path in logs.iterdir()) == ["ps_0.log", "worker_0.log", "worker_1.log"]
    assert "ps:0 serves on" in (logs / "ps_0.log").read_text()
    assert "checkpoint" in (logs / "worker_0.log").read_text() and "step 30/30" in (logs / "worker_0.log").read_text()
    assert "worker:1 done" in (logs / "worker_1.log").read_text() and "[worker:1] worker:1 done" in run.output
    assert not run.descendants()


def test_a_task_that_fails_leaves_its_cause_and_its_traceback(processes: Processes) -> None:
    logs = processes.directory / "logs"
    cluster = TestCluster(processes, 1, 1, f"--log_dir={logs}", "--max_steps=9")
    server = cluster.start("ps", 0)
    server.wait_for("serves on")
    worker = cluster.start("worker", 0, "--model=tests.support.models.small:NoSuch")
    assert worker.wait(60) == 2
    found = error_of(logs, "worker_0")
    assert found["task"] == "worker:0" and found["exit_code"] == 2
    assert found["cause"] in worker.output and "NoSuch" in found["cause"]
    assert found["traceback"].startswith("Traceback") and found["traceback"].rstrip().endswith(found["cause"])
    assert found["cause"] in (logs / "worker_0.log").read_text()
    server.send(signal.SIGTERM)
    assert server.wait(30) == 128 + signal.SIGTERM
    assert not (logs / "ps_0.error.json").exists()  # a signal is not a failure


@pytest.mark.long
def test_the_launcher_writes_the_error_of_a_task_that_was_killed(processes: Processes) -> None:
    run = processes.run("--log_dir=logs", "--model_dir=m", "--max_steps=1000000", "--log_secs=0.1")
    run.wait_for("step ")
    os.kill(task_of(run.pid, "ps:0"), signal.SIGKILL)
    assert run.wait(60) == 1
    found = error_of(processes.directory / "logs", "ps_0")
    assert found["exit_code"] == 128 + signal.SIGKILL and "ended by signal 9 (SIGKILL)" in found["cause"]
    eventually(lambda: not run.descendants(), 10, "the end of all")


def test_a_local_job_that_fails_before_its_tasks_start_has_the_error_of_the_chief(processes: Processes) -> None:
    run = processes.run("--log_dir=logs", "--model_dir=m", "--model=tests.support.models.small:NoSuch")
    assert run.wait(60) == 2
    assert error_of(processes.directory / "logs", "worker_0")["cause"] in run.output


def test_a_log_dir_that_cannot_be_written_is_refused(processes: Processes) -> None:
    (processes.directory / "file").write_text("")
    run = processes.run("--log_dir=file", "--model_dir=m")
    assert run.wait(60) == 2
    assert "log_dir=" in run.output and "use another" in run.lines[-1]
