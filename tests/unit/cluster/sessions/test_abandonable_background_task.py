"""Work in the background: one at a time, and not for ever behind one that hangs."""

from __future__ import annotations

import threading

import pytest

from ps_train.cluster.sessions.abandonable import BackgroundTask
from tests.support.machine.processes import eventually


def test_one_runs_at_a_time_and_at_most_one_waits() -> None:
    ask, go_on, done, running = BackgroundTask(), threading.Event(), [], threading.Event()

    def work(name: str) -> None:
        running.set()
        assert go_on.wait(20)
        done.append(name)

    ask(lambda: work("first"))
    assert running.wait(20)
    for name in ("second", "third", "fourth"):
        ask(lambda name=name: work(name))
    go_on.set()
    eventually(lambda: done == ["first", "second"], 20, "the end of both")


def test_what_hangs_is_abandoned_and_what_waits_behind_it_is_not_done_later() -> None:
    ask, go_on, done = BackgroundTask(patience_secs=0.1), threading.Event(), []
    before = threading.active_count()
    ask(lambda: done.append("hung") if go_on.wait(60) else None)
    eventually(lambda: ask(lambda: done.append("new")) or "new" in done, 20, "the work of another thread")
    go_on.set()
    eventually(lambda: "hung" in done, 20, "the end of what hung")
    eventually(lambda: threading.active_count() <= before, 20, "the end of its thread")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_fails_does_not_keep_later_work_from_being_done() -> None:
    ask, done = BackgroundTask(), []
    ask(lambda: 1 / 0)
    eventually(lambda: ask(lambda: done.append("new")) or done, 20, "later work")
