"""Outputs that could not be written are told once, and again at the end of a job that is done."""

from __future__ import annotations

import contextlib
import logging
import os
import threading

import pytest

from ps_train.base import lost_outputs
from ps_train.base.errors import EXIT_CONFIG, ConfigError
from ps_train.base.lifecycle import Recorder, attach, record_event
from ps_train.base.lost_outputs import check_outputs, lose

FULL = "/dev/full"

needs_full_device = pytest.mark.skipif(not os.path.exists(FULL), reason="there is no /dev/full here")


class Told(logging.Handler):
    """Keeps the texts of warnings."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


@pytest.fixture(autouse=True)
def told():
    lost_outputs._lost.clear()  # of other tests of this process
    handler = Told()
    lost_outputs.log.addHandler(handler)
    yield handler.texts
    lost_outputs.log.removeHandler(handler)
    attach(Recorder())
    with contextlib.suppress(ConfigError):
        check_outputs()


def test_nothing_is_lost():
    check_outputs()


def test_a_lost_output_is_told_once_and_at_the_end(told):
    for error in (OSError(28, "No space left on device"), ValueError("other")):
        lose("profile=1:2", error)
    lose("events_json=/a", ValueError("why"))
    assert len(told) == 2
    assert told[0] == "profile=1:2 cannot be written: No space left on device; training continues without it"
    with pytest.raises(ConfigError) as caught:
        check_outputs()
    assert "profile=1:2 (No space left on device), events_json=/a (ValueError: why)" in str(caught.value)
    assert caught.value.exit_code == EXIT_CONFIG
    check_outputs()


@needs_full_device
def test_events_on_a_full_disk_are_lost_outputs(told):
    recorder = attach(Recorder(FULL))
    logging.getLogger("ps_train").setLevel(logging.INFO)
    record_event("started", "one")
    record_event("ended", "two")
    assert [event.text for event in recorder.events()] == ["one", "two"]
    assert told == [f"events_json={FULL} cannot be written: No space left on device; training continues without it"]
    with contextlib.suppress(OSError):  # what is left in its buffer
        recorder._file.close()
    with pytest.raises(ConfigError, match=r"events_json=/dev/full \(No space left on device\)"):
        check_outputs()


class _Met(OSError):
    """An error whose reason is read by all threads at the same time."""

    together = threading.Barrier(3)

    @property
    def strerror(self):
        self.together.wait(10)
        return "full"


def test_threads_that_lose_an_output_at_once_tell_it_once(told):
    threads = [threading.Thread(target=lose, args=("events_json=x", _Met())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert told == ["events_json=x cannot be written: full; training continues without it"]
