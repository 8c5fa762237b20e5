"""Flags of a task's process, and its end with the process that has started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from ps_train.commands.launch import child_process
from ps_train.commands.launch.child_process import PARENT_VARIABLE, stop_with_parent, task_arguments
from ps_train.config.job import WATCH_STDIN_VARIABLE


def test_a_task_has_the_flags_of_the_job_and_its_own() -> None:
    job = ["--max_steps=5", "--ignore_checkpoints"]
    assert task_arguments(job, "ps:0", 0) == [*job, "--job_name=ps", "--task_index=0"]
    assert task_arguments(job, "worker:12", 0)[-2:] == ["--job_name=worker", "--task_index=12"]


@pytest.mark.parametrize("flag", ["--ignore_checkpoints", "--ignore_checkpoints=true"])
def test_a_restarted_task_does_not_ignore_its_own_checkpoints(flag: str) -> None:
    assert task_arguments(["--a=1", flag], "ps:0", 1) == ["--a=1", "--job_name=ps", "--task_index=0"]


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    monkeypatch.setattr(child_process, "signal_at_parents_end", lambda signum: found.append(("at end", signum)))
    monkeypatch.setattr(os, "kill", lambda pid, signum: found.append((pid, signum)))
    return found


def test_a_process_that_no_call_has_started_stays(kills: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PARENT_VARIABLE, raising=False)
    stop_with_parent()
    assert kills == []


@pytest.mark.parametrize(("parent", "is_gone"), [(os.getppid, False), (lambda: os.getppid() + 1, True)])
def test_a_process_stops_if_its_parent_has_ended(
    kills: list[object], monkeypatch: pytest.MonkeyPatch, parent: Callable[[], int], is_gone: bool
) -> None:
    monkeypatch.setenv(PARENT_VARIABLE, str(parent()))
    stop_with_parent()
    ended = [(os.getpid(), signal.SIGTERM)] if is_gone else []
    assert kills == [("at end", signal.SIGTERM), *ended] and PARENT_VARIABLE not in os.environ


def test_a_task_ends_with_the_pipe_of_its_launcher() -> None:
    program = (
        "import time; from ps_train.commands.launch.child_process import die_with_launcher\n"
        "print(die_with_launcher(), die_with_launcher(), flush=True); time.sleep(60)"
    )
    environment = {**os.environ, WATCH_STDIN_VARIABLE: "1"}
    task = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert task.stdout is not None and task.stdin is not None
    assert task.stdout.readline() == "True False\n" and task.poll() is None
    task.stdin.close()
    assert task.wait(20) == child_process.EXIT_FAILED
    task.stdout.close()


def test_a_breakpoint_without_a_terminal_is_an_error_instead_of_a_hang() -> None:
    program = "from ps_train.commands.launch.child_process import die_with_launcher; die_with_launcher(); breakpoint()"
    environment = {**os.environ, WATCH_STDIN_VARIABLE: "1"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as task:
        assert task.stderr is not None and "breakpoint() has no terminal" in task.stderr.read()
        assert task.wait(20) == 1
