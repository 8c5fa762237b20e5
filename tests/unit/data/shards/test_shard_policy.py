"""Free shards go to the worker that asks, those furthest behind first."""

from __future__ import annotations

import numpy as np

from ps_train.data.shards.shard_layout import Assignment, progress_value
from ps_train.data.shards.shard_policy import (
    assignment_of,
    choose_shards,
    fair_share,
    free_shards,
    is_done,
    is_finished,
)


def progress_of(*rows):
    return np.array(rows, np.int64)


def whole(shard, number_of_pass=0):
    return Assignment(shard, progress_value(number_of_pass), progress_value(number_of_pass + 1))


def test_owned_shards_are_not_free_and_those_furthest_behind_come_first():
    holders = np.array([0, 2, 0, 0, 1])
    progress = progress_of(
        [progress_value(1), progress_value(0), progress_value(0, 8), progress_value(0), progress_value(0)]
    )
    assert free_shards(holders, progress, epochs=0) == [0, 2, 3]
    assert [chosen.shard for chosen in choose_shards(holders, progress, 0, max_shards=5)] == [2, 3, 0]
    assert choose_shards(holders, progress, 0, max_shards=1) == [Assignment(2, progress_value(0, 8), progress_value(1))]


def test_when_the_epochs_are_through_there_is_nothing_to_get():
    progress = progress_of([progress_value(2), progress_value(1, 8)])
    assert free_shards(np.zeros(2), progress, epochs=2) == [1]
    assert not is_finished(progress, 2)
    assert is_finished(progress_of([progress_value(2), progress_value(2)]), 2)
    assert not is_finished(
        progress_of([progress_value(2), progress_value(2)], [progress_value(2), progress_value(1, 8)]), 2
    ), "the second ps lacks some"
    assert not is_finished(progress, 0), "there is no end"
    assert is_done(whole(0, 2), 2) and not is_done(whole(0, 1), 2) and not is_done(whole(0, 9), 0)


def test_where_ps_differ_reading_begins_at_the_last_and_ends_where_the_next_one_stands():
    progress = progress_of([progress_value(0, 16)], [progress_value(0, 8)], [progress_value(1, 4)])
    assert assignment_of(0, progress) == Assignment(0, progress_value(0, 8), progress_value(0, 16))
    assert assignment_of(0, progress[[0, 2]]) == Assignment(0, progress_value(0, 16), progress_value(1))


def test_near_the_end_every_worker_takes_one():
    assert fair_share(64, 2) == 16
    assert fair_share(3, 2) == fair_share(0, 8) == 1
