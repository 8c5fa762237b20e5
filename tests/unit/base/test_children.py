"""A child process: its end, politely or not, and what is left of it."""

from __future__ import annotations

import signal
import sys

from ps_train.base.children import describe_exit, shell_code, start_child, start_text_child
from tests.support.machine.proc import is_alive
from tests.support.machine.processes import eventually

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(100)"


def test_a_child_that_stops_when_asked_ends_by_that_signal() -> None:
    child = start_child(["sleep", "100"])
    assert child.poll() is None and child.wait_for(0.01) is None
    child.stop(within_secs=100)
    assert child.wait() == child.poll() == -signal.SIGTERM
    child.send(signal.SIGTERM)  # too late, and harmless


def test_the_end_of_a_child_is_waited_for_as_long_as_asked() -> None:
    assert start_child(["sh", "-c", "sleep 0.2; exit 3"]).wait_for(60) == 3


def test_a_process_gets_a_signal_at_the_end_of_its_parent() -> None:
    asks = "from ps_train.base.children import signal_at_parents_end; signal_at_parents_end(9)"
    child = f"import os, time; {asks}; print(os.getpid(), flush=True); time.sleep(100)"
    parent = start_text_child(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"]
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_now(signal.SIGKILL)
    parent.wait()
    eventually(lambda: not is_alive(pid), 10, "the end of the orphan")


def test_a_child_that_does_not_stop_in_time_is_killed() -> None:
    child = start_text_child([sys.executable, "-c", STUBBORN])
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    child.stop(within_secs=0.2)
    eventually(lambda: child.poll() is not None, 10, "the end of the child")
    assert child.wait() == -signal.SIGKILL


def test_at_the_end_of_the_body_nothing_of_a_child_is_left() -> None:
    with start_text_child(["sh", "-c", "sleep 100 & echo $!; exec sleep 100"]) as child:
        assert child.stdout is not None
        started = int(child.stdout.readline())
    assert child.poll() == -signal.SIGKILL
    eventually(lambda: not is_alive(started), 10, "the end of what the child has started")


def test_an_end_is_told_by_its_code_or_its_signal() -> None:
    assert [shell_code(code) for code in (0, 2, -9)] == [0, 2, 137]
    assert describe_exit(-9) == "was ended by signal 9 (SIGKILL)"
    assert describe_exit(2) == "failed with exit code 2"
