"""The launcher's events reach the chief by a file, and no event is worth an error."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

import pytest

from ps_train.base.event_file import ENVIRONMENT, EventFile


def test_events_are_lines_in_the_file_that_children_are_given() -> None:
    events = EventFile()
    path = pathlib.Path(events.environment()[ENVIRONMENT])
    events.add("fault", "worker:1", "strikes at\nstep 203")
    events.add("restarted", "ps:0", "again")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(one["kind"], one["task"], one["text"]) for one in found] == [
        ("fault", "worker:1", "strikes at\nstep 203"),
        ("restarted", "ps:0", "again"),
    ]
    assert found[0]["time"] <= found[1]["time"]
    events.close()
    assert not path.exists()
    events.close()  # a second end is no error


def test_without_a_place_no_event_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**options: str) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(tempfile, "mkstemp", fails)
    events = EventFile()
    assert events.environment() == {}
    events.add("fault", "worker:1", "lost")
    events.close()


def test_an_event_that_cannot_be_written_is_lost() -> None:
    events = EventFile()
    path = events.environment()[ENVIRONMENT]
    os.unlink(path)
    os.mkdir(path)
    events.add("fault", "worker:1", "lost")
    assert os.listdir(path) == []
    os.rmdir(path)
