"""Which checkpoints a run keeps: the newest ones, and those that others need."""

from __future__ import annotations

import pytest

from ps_train.engine.run_directory import kept_checkpoints
from ps_train.engine.run_directory.cut_checkpoints import EventCut, add_cut
from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints

STEPS = [250, 240, 200, 150, 100, 50]


@pytest.mark.parametrize(("count", "kept"), [(1, [250]), (3, [250, 240, 200]), (9, STEPS)])
def test_the_newest_are_kept(tmp_path, count, kept):
    assert KeptCheckpoints(count).of(STEPS, str(tmp_path)) == kept
    assert KeptCheckpoints(count).of([], str(tmp_path)) == []
    assert KeptCheckpoints(count).needed(str(tmp_path)) == set()


def test_cuts_and_other_checkpoints_are_kept_beside_each_other(tmp_path):
    for number in (1, 2):
        add_cut(str(tmp_path), EventCut(number * 1000, 100 * number, number * 1000 + 1), keep=5)
    assert KeptCheckpoints(2).of(STEPS, str(tmp_path)) == [250, 240, 200, 100]
    assert KeptCheckpoints(1).of(STEPS, str(tmp_path)) == [250, 200]


def test_what_each_of_the_others_needs_is_counted_by_itself_and_among_the_present_ones(monkeypatch):
    asked = []
    needs = [lambda directory: asked.append(directory) or {100, 50, 999}, lambda directory: [200, 100]]
    monkeypatch.setattr(kept_checkpoints, "NEEDED_STEPS", needs)
    assert KeptCheckpoints(1).of(STEPS, "here") == [250, 200, 100]
    assert KeptCheckpoints(2).of(STEPS, "here") == [250, 240, 200, 100, 50]
    assert KeptCheckpoints(1).needed("here") == {50, 100, 200, 999} and set(asked) == {"here"}
