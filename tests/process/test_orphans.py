"""The check of other tests for processes that are left over finds those that are."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

from tests.support.machine.proc import is_alive
from tests.support.machine.processes import Processes, eventually

LEAVE_ONE = "setsid sleep 60 >/dev/null 2>&1 & echo $!"


def orphan_of(processes: Processes) -> int:
    """Starts a process that ends, and returns a child of it that lives on, in a session of its own."""
    parent = processes.command(["sh", "-c", LEAVE_ONE])
    assert parent.wait(10) == 0
    pid = int(parent.output)
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert int(stat[1]) != parent.pid, "it has another parent by now"
    return pid


def test_a_living_orphan_is_found_until_it_is_dead(processes: Processes) -> None:
    pid = orphan_of(processes)
    (parent,) = processes.started
    eventually(lambda: parent.descendants() == [pid], 10, "its place under what started it")
    eventually(lambda: processes.orphans() == {pid: "sleep 60 "}, 10, "its command")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not parent.descendants(), 10, "its end")
    assert not processes.orphans()


@pytest.mark.long
def test_a_process_that_runs_and_the_processes_of_others_are_no_orphans(
    processes: Processes, tmp_path: pathlib.Path
) -> None:
    others = Processes(tmp_path)
    running = processes.command(["sh", "-c", "sleep 60; true"])
    try:
        pid = orphan_of(others)
        eventually(lambda: len(running.descendants()) == 1, 10, "the child of what runs")
        assert not processes.orphans() and pid not in running.descendants()
    finally:
        others.end()


def test_the_end_of_a_test_is_the_end_of_its_orphans(processes: Processes) -> None:
    pid = orphan_of(processes)
    processes.end()
    eventually(lambda: not is_alive(pid), 10, "its end")
