"""The launcher with shell scripts in the place of tasks: output, the first failure, restarts, the end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import signal
import time
from collections.abc import Callable

import pytest

from ps_train.base.children import NewProcess, start_text_child
from ps_train.base.console import Console
from ps_train.commands.launch import launcher
from ps_train.commands.launch.launcher import Launcher
from ps_train.commands.launch.restart_policy import RestartPolicy
from ps_train.config.error_report import REPORT_VARIABLE
from ps_train.config.fault_spec import Schedule, parse


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it passes in each test of an end; the scripts need much less."""
    monkeypatch.setattr(launcher, "GRACE_SECS", 4.0)


class Job:
    """Scripts by task name; with `$RESTARTS`."""

    def __init__(self, directory: pathlib.Path, **scripts: str) -> None:
        self.started: list[NewProcess] = []
        self._directory = directory
        self._starts = {name.replace("_", ":"): self._starter(script) for name, script in scripts.items()}
        self.out, self.errors = io.StringIO(), io.StringIO()

    def _starter(self, script: str) -> Callable[[int], NewProcess]:
        def start(restarts: int) -> NewProcess:
            environ = {"RESTARTS": str(restarts), "PATH": "/usr/bin:/bin"}
            self.started.append(start_text_child(["sh", "-c", script], environ))
            return self.started[-1]

        return start

    def run(self, max_restarts: int = 0) -> int:
        console = Console(self.out, self.errors)
        job = Launcher(console, RestartPolicy(max_restarts), Schedule(parse(())), str(self._directory))
        code = job.run(self._starts, "worker:0")
        assert all(process.poll() is not None for process in self.started)
        for process in self.started:
            assert process.stdin is not None
            process.stdin.close()
        return code


def test_output_has_the_name_of_its_task_but_for_the_chief(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, ps_0="echo a; echo b >&2", worker_0="echo c; echo d >&2; sleep 0.2")
    assert job.run() == 0
    assert sorted(job.out.getvalue().splitlines()) == ["[ps:0] a", "c"]
    assert sorted(job.errors.getvalue().splitlines()) == ["[ps:0] b", "d"]


def test_the_first_failure_is_the_cause_and_gives_the_exit_code(tmp_path: pathlib.Path) -> None:
    job = Job(
        tmp_path,
        ps_0="echo 'ps_train: error: no room' >&2; exit 7",
        worker_0="trap 'echo ps_train: error: late; exit 1' TERM; while :; do sleep 0.05; done",
    )
    assert job.run() == 7
    last = job.errors.getvalue().splitlines()[-1]
    assert (
        last
        == "ps_train: ps:0 failed with exit code 7, and so the job failed: no room (help: troubleshoot#a-task-died)"
    )
    found = json.loads((tmp_path / "ps_0.error.json").read_text())
    assert found["cause"] == "ps:0 failed with exit code 7: no room" and found["exit_code"] == 7


FAILS = (
    "echo 'Your code (--verbose shows all frames):' >&2; echo '  in deeper' >&2; "
    "echo 'ps_train: error: no w (help: models#mistakes)' >&2; "
)


def test_the_cause_is_shown_once_and_nothing_of_the_tasks_that_the_launcher_ended(tmp_path: pathlib.Path) -> None:
    job = Job(
        tmp_path,
        ps_0="trap 'echo warning: ps:0 got signal 15 >&2; echo saved; exit 143' TERM; while :; do sleep 0.05; done",
        worker_0=FAILS + "sleep 0.5; exit 2",
        worker_1=FAILS + "echo late; exit 2",
        worker_2="sleep 0.5; echo 'ps_train: error: the job failed: worker:1: no w' >&2; exit 1",
        worker_3="sleep 0.5; echo 'ps_train: error: something else' >&2; exit 1",
    )
    assert job.run() == 2
    assert sorted(job.out.getvalue().splitlines()) == ["[ps:0] saved", "[worker:1] late"]
    assert job.errors.getvalue().splitlines() == [
        "[worker:3] ps_train: error: something else",
        "ps_train: the last lines of worker:1:",
        "  late",
        "Your code (--verbose shows all frames):",
        "  in deeper",
        "ps_train: worker:1 failed with exit code 2, and so the job failed: no w (help: models#mistakes)",
    ]


def test_the_error_of_a_task_that_restarts_is_shown_before_that(tmp_path: pathlib.Path) -> None:
    job = Job(
        tmp_path, ps_0="sleep 60", worker_0="test $RESTARTS = 1 && exit 0; echo 'ps_train: error: oh' >&2; exit 1"
    )
    assert job.run(max_restarts=1) == 0
    first, second = job.errors.getvalue().splitlines()
    assert first == "ps_train: error: oh" and "it will restart in 0.5s" in second


def test_a_fit_that_raises_the_cause_does_not_show_it_too(tmp_path: pathlib.Path, monkeypatch) -> None:
    report = tmp_path / "errors.jsonl"
    monkeypatch.setenv(REPORT_VARIABLE, str(report))
    job = Job(tmp_path, worker_0=f"echo '[\"ModelError\", \"oh\"]' > {report}; echo 'ps_train: error: oh' >&2; exit 2")
    assert job.run() == 2 and job.errors.getvalue() == ""
    job = Job(tmp_path, worker_0="kill -KILL $$")  # has reported nothing
    assert job.run() == 1 and "was ended by signal 9" in job.errors.getvalue()


def test_a_task_that_a_signal_ended_has_an_error_file(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, ps_0="sleep 60", worker_0="echo last; kill -SEGV $$")
    assert job.run() == 1
    found = json.loads((tmp_path / "worker_0.error.json").read_text())
    assert found["exit_code"] == 139 and "signal 11 (SIGSEGV): last" in found["cause"]
    assert not (tmp_path / "ps_0.error.json").exists()  # the launcher ended it


def test_a_failed_task_is_restarted_as_often_as_allowed(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, ps_0="sleep 60", worker_0="test $RESTARTS = 1 && exit 0; exit 1")
    assert job.run(max_restarts=1) == 0
    assert "worker:0 failed with exit code 1; it will restart in 0.5s (restart 1 of 1)" in job.errors.getvalue()
    assert len(job.started) == 3 and not list(tmp_path.iterdir())


def test_a_wrong_configuration_is_not_restarted(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, ps_0="sleep 60", worker_0="exit 2")
    assert job.run(max_restarts=3) == 2
    assert len(job.started) == 2


def test_nothing_waits_for_what_a_task_has_left_running(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, worker_0="sleep 60 & echo $!; echo done; printf half; printf error >&2")
    begin = time.monotonic()
    assert job.run() == 0
    assert time.monotonic() - begin < 30
    pid, *lines = job.out.getvalue().splitlines()
    os.kill(int(pid), signal.SIGKILL)
    assert lines == ["done", "half"] and job.errors.getvalue() == "error\n"


def test_nothing_waits_for_the_output_of_what_a_task_has_left_running(tmp_path: pathlib.Path) -> None:
    job = Job(tmp_path, worker_0="(while sleep 0.05; do echo still here; done) & echo $!")
    begin = time.monotonic()
    assert job.run() == 0
    assert time.monotonic() - begin < 30
    with contextlib.suppress(ProcessLookupError):  # the closed pipe has ended it
        os.kill(int(job.out.getvalue().split()[0]), signal.SIGKILL)
