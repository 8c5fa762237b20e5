"""The supervisor of children, with real processes."""

from __future__ import annotations

import io
import signal
import sys
import threading

import pytest

from ps_train.base.children import NewProcess, start_text_child
from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE
from ps_train.commands.launch.supervisor import GRACE_SECS, ChildSupervisor
from tests.support.machine.processes import eventually

IGNORES = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
CLOSES = "import os, time; print('ready', flush=True); os.close(1); os.close(2); time.sleep(60)"


def start(code: str) -> NewProcess:
    return start_text_child([sys.executable, "-c", code])


class Job(ChildSupervisor):
    """Its first failure begins a shutdown of half a second."""

    def __init__(self) -> None:
        super().__init__(Console(io.StringIO()), 5)
        self.seen: list[tuple[str, int]] = []
        self.ready = 0

    def is_echo(self, line: str) -> bool:
        return False

    def took(self, name: str, is_error: bool, line: str) -> bool:
        self.ready += line == "ready"
        return True

    def ended(self, child, code: int) -> None:
        self.seen.append((child.name, code))
        self.running.discard(child.name)
        if code != EXIT_DONE:
            self.failed = child
            self.begin_shutdown(0.5)
            self.send_all(signal.SIGTERM)

    def run_with(self, **codes: str) -> None:
        self.supervise(lambda: [self.add(name, start(code)) for name, code in codes.items()])


def in_a_thread(job: Job, **codes: str) -> threading.Thread:
    thread = threading.Thread(target=job.run_with, kwargs=codes, daemon=True)
    thread.start()
    eventually(lambda: job.ready == len(codes), 30, "children that are ready")
    return thread


def test_the_first_failure_is_the_cause_and_those_that_do_not_end_are_killed() -> None:
    job = Job()
    thread = in_a_thread(job, good="print('ready')", stubborn=IGNORES, bad="print('ready', flush=True); input()")
    eventually(lambda: ("good", 0) in job.seen, 30, "the end of the task that ends well")
    job.children["bad"].process.stdin.close()
    thread.join(30)
    assert not thread.is_alive()
    assert job.failed is job.children["bad"] and ("bad", 1) in job.seen and ("good", 0) in job.seen
    assert job.children["stubborn"].process.wait() == -signal.SIGKILL


def test_a_signal_is_forwarded_and_the_second_one_kills() -> None:
    job = Job()
    thread = in_a_thread(job, one=IGNORES)
    job.post(job._forward_signal, signal.SIGTERM)
    job.post(job._forward_signal, signal.SIGTERM)
    thread.join(GRACE_SECS / 2)
    assert not thread.is_alive()
    assert job.signals == [signal.SIGTERM] * 2 and job.is_shutting_down
    assert job.children["one"].process.wait() == -signal.SIGKILL


def test_a_hangup_ends_a_task_in_order_also_if_it_has_closed_its_output() -> None:
    job = Job()
    thread = in_a_thread(job, one=CLOSES)
    job.post(job._forward_signal, signal.SIGHUP)
    thread.join(GRACE_SECS / 2)
    assert not thread.is_alive()
    assert job.children["one"].process.wait() == -signal.SIGTERM


def test_a_start_that_fails_leaves_no_child() -> None:
    job = Job()

    def starts() -> None:
        job.add("one", start(IGNORES))
        raise OSError("no more processes")

    with pytest.raises(OSError, match="no more processes"):
        job.supervise(starts)
    assert job.children["one"].process.poll() == -signal.SIGKILL
