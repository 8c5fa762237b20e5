"""Events on their way from the launcher to the chief."""

from __future__ import annotations

import os

import pytest

from ps_train.base.event_file import ENVIRONMENT, EventFile
from ps_train.base.lifecycle import Recorder
from ps_train.observe.status.launcher_events import LauncherEvents


@pytest.fixture
def events(monkeypatch):
    made = EventFile()
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def test_each_event_arrives_once_and_in_order(events):
    recorder = Recorder()
    reader = LauncherEvents(recorder)
    reader.read()
    events.add("fault", "worker:1", "kill:worker:1@200 strikes at step 203 é")
    reader.read()
    events.add("lost", "worker:1", "it will restart")
    reader.read()
    reader.read()
    assert [(found.kind, found.task) for found in recorder.events()] == [("fault", "worker:1"), ("lost", "worker:1")]


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(events):
    recorder = Recorder()
    reader = LauncherEvents(recorder)
    with open(os.environ[ENVIRONMENT], "a") as file:
        file.write('{"time": 1.0, "kind": "fault", ')
        file.flush()
        reader.read()
        assert recorder.events() == []
        file.write('"task": "worker:1", "text": "slow"}\n')
    reader.read()
    assert [found.text for found in recorder.events()] == ["slow"]


def test_without_a_launcher_or_after_its_end_there_are_none(events, monkeypatch):
    recorder = Recorder()
    reader = LauncherEvents(recorder)
    events.close()
    reader.read()
    monkeypatch.delenv(ENVIRONMENT)
    LauncherEvents(recorder).read()
    assert recorder.events() == []


def test_lines_that_are_no_events_are_left_out(events):
    recorder = Recorder()
    reader = LauncherEvents(recorder)
    with open(os.environ[ENVIRONMENT], "ab") as file:
        file.write(b'\x80\n{"time": "now"}\n[' * 3 + b"\n")
    events.add("lost", "worker:1", "it will restart")
    reader.read()
    assert [found.kind for found in recorder.events()] == ["lost"]
