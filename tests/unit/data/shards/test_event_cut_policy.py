"""Which partitions have reached the next cut by event time."""

from __future__ import annotations

import numpy as np

from ps_train.data.shards.event_cut_policy import has_any_reached, idle_mark, reached, reached_all

PROGRESS = np.array([[11, 21, 31, 0], [11, 21, 30, 0]])


def marks(*pairs):
    return np.array([*pairs, (0, 0)], np.int64)


def test_a_mark_counts_at_its_cursor_and_from_the_time_of_the_cut_on():
    found = marks((11, 500), (21, 499), (31, 700))
    assert reached(found, PROGRESS, 0, 500) == 500
    assert reached(found, PROGRESS, 1, 500) is None  # an earlier row
    assert reached(found, PROGRESS, 2, 500) is None  # a ps is behind
    assert reached(found, PROGRESS, 3, 500) is None  # no mark
    assert reached(marks((12, 500), (0, 0), (0, 0)), PROGRESS, 0, 500) is None  # the partition has gone on
    assert reached(found, PROGRESS, 1, 0) == 499  # while no cut is chosen


def test_all_must_have_reached_it_and_one_of_them_by_a_row():
    idle = idle_mark(500)
    assert reached_all(marks((11, 600), (21, 550), (0, 0)), PROGRESS, [0, 1], 500) == [600, 550]
    assert reached_all(marks((11, 600), (21, idle), (0, 0)), PROGRESS, [0, 1], 500) == [600]
    assert reached_all(marks((11, idle), (21, idle), (0, 0)), PROGRESS, [0, 1], 500) is None
    assert reached_all(marks((11, 600), (21, idle_mark(400)), (0, 0)), PROGRESS, [0, 1], 500) is None
    assert reached_all(marks((11, 600), (21, 600), (0, 0)), PROGRESS, [0, 1, 2], 500) is None
    assert has_any_reached(marks((11, 600), (0, 0), (0, 0)), PROGRESS, [0, 1], 500)
    assert not has_any_reached(marks((11, idle), (0, 0), (0, 0)), PROGRESS, [0, 1], 500)
