"""The file of cuts by event time."""

from __future__ import annotations

import json

import pytest

from ps_train.engine.run_directory.cut_checkpoints import EventCut, add_cut, forget_cuts_after, read_cuts

DAY = 86_400_000
CUTS = [EventCut(number * DAY, 100 * number, number * DAY + 1) for number in range(1, 5)]


def test_cuts_are_written_and_read_and_the_oldest_are_left_out(tmp_path):
    for cut in CUTS:
        add_cut(str(tmp_path), cut, keep=3)
    add_cut(str(tmp_path), CUTS[3], keep=3)
    assert read_cuts(str(tmp_path)) == CUTS[1:]
    found = json.loads((tmp_path / "event_cuts.json").read_text())
    assert found["1970-01-04T00:00:00Z"] == {
        "checkpoint": "model.ckpt-300",
        "step": 300,
        "next_event_time": "1970-01-04T00:00:00.001Z",
    }
    forget_cuts_after(str(tmp_path), 200)
    assert read_cuts(str(tmp_path)) == CUTS[1:2]


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"1970-01-04T00:00:00Z": {}}', '{"x": {"step": 1}}', '{"x": 1}'])
def test_a_damaged_file_has_no_cuts(tmp_path, text):
    (tmp_path / "event_cuts.json").write_text(text)
    assert read_cuts(str(tmp_path)) == []
