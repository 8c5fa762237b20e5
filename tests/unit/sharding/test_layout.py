"""How data are cut into shards, and who is to get which next."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.sharding.layout import Assignment, ShardLayout, default_shard_size, progress_value
from ps_train.sharding.policy import assignment_of, choose_shards, fair_share, free_shards, is_done, is_finished


def progress_of(*rows):
    return np.array(rows, np.int64)


def whole(shard, number_of_pass=0):
    return Assignment(shard, progress_value(number_of_pass), progress_value(number_of_pass + 1))


@pytest.mark.parametrize("examples, size", [(100, 8), (96, 8), (5, 8), (1, 1)])
@pytest.mark.parametrize("seed", [None, 7])
def test_the_shards_of_a_pass_are_all_examples_once(examples, size, seed):
    layout = ShardLayout(examples, size, seed)
    found = np.concatenate([layout.indices(whole(shard, 2)) for shard in range(layout.count)])
    assert sorted(found) == list(range(examples))
    assert [layout.length(whole(shard)) for shard in range(layout.count)][:-1] == [size] * (layout.count - 1)


def test_without_a_seed_they_are_in_the_order_of_the_data_and_with_one_in_another_order_in_each_pass():
    assert list(ShardLayout(10, 4, None).indices(whole(1, 3))) == [4, 5, 6, 7]
    layout = ShardLayout(1000, 1000, 7)
    first, second = (list(layout.indices(whole(0, number))) for number in (0, 1))
    assert first != second and first != list(range(1000))
    assert first == list(ShardLayout(1000, 1000, 7).indices(whole(0)))
    assert first != list(ShardLayout(1000, 1000, 8).indices(whole(0)))


def test_parts_of_a_shard_make_up_the_shard():
    layout = ShardLayout(100, 40, 7)
    parts = [
        Assignment(1, progress_value(2), progress_value(2, 13)),
        Assignment(1, progress_value(2, 13), progress_value(3)),
    ]
    assert [layout.length(part) for part in parts] == [13, 27]
    np.testing.assert_array_equal(
        np.concatenate([layout.indices(part) for part in parts]), layout.indices(whole(1, number_of_pass=2))
    )


def test_what_makes_a_cursor_mean_something_else_is_in_the_name():
    layouts = [
        ShardLayout(100, 8, None),
        ShardLayout(101, 8, None),
        ShardLayout(100, 9, None),
        ShardLayout(100, 8, 1),
        ShardLayout(100, 8, 2),
    ]
    assert len({layout.name for layout in layouts}) == len(layouts)


def test_a_shard_is_of_whole_batches_and_there_are_many():
    assert default_shard_size(1_000_000, 32) == 512
    assert default_shard_size(10_000, 32) == 4 * 32
    assert default_shard_size(100, 32) == 32


def test_nobody_gets_what_somebody_has_and_those_furthest_behind_come_first():
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


def test_near_the_end_everybody_takes_one():
    assert fair_share(64, 2) == 16
    assert fair_share(3, 2) == fair_share(0, 8) == 1
