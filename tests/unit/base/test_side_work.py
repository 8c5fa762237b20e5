"""Work beside training that fails: one warning, until it works again; a thread that dies is seen."""

from __future__ import annotations

import logging
import threading

import pytest

from ps_train.base import side_work


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_work, "_failing", {})
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)


def test_a_failure_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    side_work.works("deltas")
    side_work.failed("deltas", "the disk is full")
    first = side_work.failing()["deltas"]
    side_work.failed("deltas", "the disk is gone")
    second = side_work.failing()["deltas"]
    assert (second.since, second.reason) == (first.since, "the disk is gone")
    side_work.works("deltas")
    assert side_work.failing() == {}
    side_work.failed("uploads", "no", is_told=True)
    side_work.works("uploads", is_told=True)
    assert caplog.messages == ["deltas: the disk is full; training continues", "deltas: works again, after 0s"]


def test_a_thread_that_dies_is_failing_work(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    for _ in range(2):
        side_work.note_dead_threads()

    def die() -> None:
        raise OSError(28, "No space left on device")

    thread = threading.Thread(target=die, name="writer")
    thread.start()
    thread.join()
    assert len(told) == 1, "the hook before it is called, too"
    assert side_work.failing()["thread writer"].reason == "it has ended (OSError: [Errno 28] No space left on device)"
