"""Events and lines that a process keeps, and the file of events."""

from __future__ import annotations

import io
import json
import logging
import os

import pytest

from ps_train.base.console import Console, ConsoleHandler
from ps_train.base.errors import ConfigError
from ps_train.base.lifecycle import Event, Recorder, attach, event, from_age, record_event, with_ages

log = logging.getLogger("ps_train.somewhere")


@pytest.fixture
def recorder(tmp_path):
    made = Recorder(str(tmp_path / "events.json"))
    logger = logging.getLogger("ps_train")
    before = logger.level
    logger.setLevel(logging.INFO)
    attach(made)
    yield made
    attach(Recorder())
    logger.setLevel(before)


def test_a_log_line_with_an_event_is_both(recorder, tmp_path):
    log.warning("%s is lost", "worker:1", extra=event("lost", "worker:1"))
    log.info("a line")
    (found,) = recorder.events()
    assert (found.kind, found.task, found.text) == ("lost", "worker:1", "worker:1 is lost")
    assert [(line["level"], line["text"]) for line in recorder.lines()] == [
        ("warning", "worker:1 is lost"),
        ("info", "a line"),
    ]
    (written,) = (tmp_path / "events.json").read_text().splitlines()
    assert json.loads(written) == vars(found)


def test_a_quiet_event_does_not_reach_the_console(recorder):
    stream = io.StringIO()
    handler = ConsoleHandler(Console(stream), "")
    logging.getLogger("ps_train").addHandler(handler)
    try:
        record_event("saved", "checkpoint of step 100")
        log.info("a line")
    finally:
        logging.getLogger("ps_train").removeHandler(handler)
    assert [found.text for found in recorder.events()] == ["checkpoint of step 100"]
    assert [line["text"] for line in recorder.lines()] == ["a line"], "it is no line of the log either"
    assert stream.getvalue() == "a line\n"


def test_only_the_last_recorder_that_was_attached_gets_events(recorder):
    other = Recorder()
    attach(other)
    record_event("saved", "checkpoint of step 100")
    assert (len(recorder.events()), len(other.events())) == (0, 1)


def test_memory_and_lines_are_bounded(recorder):
    for number in range(1000):
        log.info("line %d %s", number, "x" * 10_000, extra=event("saved"))
    assert (len(recorder.events()), len(recorder.lines())) == (200, 100)
    assert recorder.lines()[-1]["text"].startswith("line 999 ")
    assert max(len(found.text) for found in recorder.events()) == 500


def test_events_come_in_the_order_of_time_whenever_they_arrive():
    recorder = Recorder()
    for time in (3.0, 1.0, 2.0):
        recorder.add(Event(time, "saved", "", str(time)))
    assert [found.time for found in recorder.events()] == [1.0, 2.0, 3.0]


def test_an_age_does_not_depend_on_the_clock_of_the_sender():
    (sent,) = with_ages([Event(1000.0, "fault", "worker:1", "slow")], now=1004.0)
    assert from_age(sent, now=77.0) == Event(73.0, "fault", "worker:1", "slow")


def test_a_file_that_cannot_be_written_is_an_error_of_the_configuration(tmp_path):
    path = tmp_path / "missing" / "events.json"
    with pytest.raises(ConfigError, match=r"^events_json=.* cannot be written to \(No such file or directory\): use"):
        Recorder(str(path))


def test_a_full_disk_loses_events_of_the_file_alone():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    recorder = Recorder("/dev/full")
    recorder.add(Event(1.0, "saved", "", "checkpoint"))
    assert len(recorder.events()) == 1


def test_an_event_has_one_of_the_known_kinds():
    with pytest.raises(AssertionError):
        event("exploded")
