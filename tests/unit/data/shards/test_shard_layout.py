"""The shards of a pass are all examples once."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.data.shards.shard_layout import Assignment, ShardLayout, default_shard_size, progress_value


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


def test_what_changes_the_meaning_of_progress_is_in_the_name():
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
