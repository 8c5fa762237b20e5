"""A pid is compared only within its own host, boot and PID namespace, and only with the process that had it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership.records import TaskStatus, new_task_status
from tests.support.machine.processes import ROOT

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc")
LOOK = """
import sys
from ps_train.cluster.membership.records import TaskStatus
from ps_train.base.process_ids import process_exited
print(process_exited(TaskStatus.from_json(sys.argv[1])))
"""


def may_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def ended() -> TaskStatus:
    """The seat of a process that has ended."""
    gone = int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))
    return dataclasses.replace(new_task_status("worker:1"), pid=gone)


def test_a_living_process_is_not_gone() -> None:
    assert not process_exited(new_task_status("worker:1"))


def test_a_process_that_has_ended_is_gone() -> None:
    assert process_exited(ended())


@pytest.mark.skipif(not may_unshare(), reason="this user may not make PID namespaces")
def test_a_process_is_not_gone_because_another_pid_namespace_does_not_show_it() -> None:
    seat = new_task_status("worker:1")
    command = [*UNSHARE, sys.executable, "-c", LOOK, seat.to_json()]
    told = subprocess.check_output(command, cwd=ROOT, text=True, timeout=30)
    assert told.strip() == "False"


@pytest.mark.parametrize("name", ["host", "machine"])
@pytest.mark.parametrize("value", ["another", ""])
def test_a_pid_of_another_machine_boot_or_namespace_says_nothing(name: str, value: str) -> None:
    assert not process_exited(dataclasses.replace(ended(), **{name: value}))


def test_a_machine_that_cannot_be_told_apart_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ps_train.base.process_ids._BOOT", "/proc/no/such/file")
    assert not process_exited(ended())


def test_a_pid_that_another_process_has_now_is_gone() -> None:
    mine = new_task_status("worker:1")
    assert mine.pid == os.getpid()
    assert mine.started
    assert process_exited(dataclasses.replace(mine, started=str(int(mine.started) - 1)))
    assert not process_exited(dataclasses.replace(mine, started=""))
