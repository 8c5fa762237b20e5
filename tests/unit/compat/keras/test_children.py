"""The other tasks of a fit end with it."""

from __future__ import annotations

import io

import pytest

from ps_train.base.children import start_text_child
from ps_train.base.console import Console
from ps_train.base.errors import JobFailedError
from ps_train.compat.keras import children
from ps_train.config.flags import parse
from tests.support.machine.processes import eventually


@pytest.fixture
def started(monkeypatch):
    """Processes that a fit starts for its other tasks: they wait, and some of them fail."""
    found = []

    def start(arguments, environ, reserved, target):
        if reserved is not None:
            reserved.close()
        found.append(start_text_child(["sleep", "1000"], environ))
        return found[-1]

    monkeypatch.setattr(children, "start_child", start)
    monkeypatch.setattr(children, "GRACE_SECS", 0.4)
    return found


def run(tmp_path, *arguments):
    job = parse(["--num_ps=1", "--num_workers=2", *arguments], {}).job
    return children.children_of(job, [*arguments], str(tmp_path), Console(io.StringIO(), io.StringIO()))


def test_no_task_is_left_after_the_body_and_none_is_started_again(started, tmp_path):
    with run(tmp_path, "--max_restarts=3"):
        eventually(lambda: len(started) == 2)
        started[0].send(9)
        eventually(lambda: len(started) == 3, 10, "the restart")
    assert [process.poll() is not None for process in started] == [True] * 3
    assert len(started) == 3


def test_a_task_that_fails_ends_the_job_with_its_cause(started, tmp_path):
    class Events:
        def set_terminal_error(self, error):
            self.error = error

    events = Events()
    with run(tmp_path) as those:
        those.watch(events)
        eventually(lambda: len(started) == 2)
        started[0].send(9)
        eventually(lambda: hasattr(events, "error"), 10, "the error")
    assert isinstance(events.error, JobFailedError) and "SIGKILL" in str(events.error)
    assert [process.poll() is not None for process in started] == [True] * 2
