"""How data are cut into shards, and who is to get which next."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.data.handout import assignment_of, candidates, choose, fair_part, is_done, is_over
from ps_train.data.layout import Assignment, Layout, cursor, usual_size


def progress_of(*rows):
    return np.array(rows, np.int64)


def whole(shard, number_of_pass=0):
    return Assignment(shard, cursor(number_of_pass), cursor(number_of_pass + 1))


@pytest.mark.parametrize("examples, size", [(100, 8), (96, 8), (5, 8), (1, 1)])
@pytest.mark.parametrize("seed", [None, 7])
def test_the_shards_of_a_pass_are_all_examples_once(examples, size, seed):
    layout = Layout(examples, size, seed)
    found = np.concatenate([layout.indices(whole(shard, 2)) for shard in range(layout.count)])
    assert sorted(found) == list(range(examples))
    assert [layout.length(whole(shard)) for shard in range(layout.count)][:-1] == [size] * (layout.count - 1)


def test_without_a_seed_they_are_in_the_order_of_the_data_and_with_one_in_another_order_in_each_pass():
    assert list(Layout(10, 4, None).indices(whole(1, 3))) == [4, 5, 6, 7]
    layout = Layout(1000, 1000, 7)
    first, second = (list(layout.indices(whole(0, number))) for number in (0, 1))
    assert first != second and first != list(range(1000))
    assert first == list(Layout(1000, 1000, 7).indices(whole(0)))
    assert first != list(Layout(1000, 1000, 8).indices(whole(0)))


def test_parts_of_a_shard_make_up_the_shard():
    layout = Layout(100, 40, 7)
    parts = [Assignment(1, cursor(2), cursor(2, 13)), Assignment(1, cursor(2, 13), cursor(3))]
    assert [layout.length(part) for part in parts] == [13, 27]
    np.testing.assert_array_equal(
        np.concatenate([layout.indices(part) for part in parts]), layout.indices(whole(1, number_of_pass=2))
    )


def test_what_makes_a_cursor_mean_something_else_is_in_the_name():
    layouts = [Layout(100, 8, None), Layout(101, 8, None), Layout(100, 9, None), Layout(100, 8, 1), Layout(100, 8, 2)]
    assert len({layout.name for layout in layouts}) == len(layouts)


def test_a_shard_is_of_whole_batches_and_there_are_many():
    assert usual_size(1_000_000, 32) == 512
    assert usual_size(10_000, 32) == 4 * 32
    assert usual_size(100, 32) == 32


def test_nobody_gets_what_somebody_has_and_those_furthest_behind_come_first():
    holders = np.array([0, 2, 0, 0, 1])
    progress = progress_of([cursor(1), cursor(0), cursor(0, 8), cursor(0), cursor(0)])
    assert candidates(holders, progress, epochs=0) == [0, 2, 3]
    assert [chosen.shard for chosen in choose(holders, progress, 0, wanted=5)] == [2, 3, 0]
    assert choose(holders, progress, 0, wanted=1) == [Assignment(2, cursor(0, 8), cursor(1))]


def test_when_the_epochs_are_through_there_is_nothing_to_get():
    progress = progress_of([cursor(2), cursor(1, 8)])
    assert candidates(np.zeros(2), progress, epochs=2) == [1]
    assert not is_over(progress, 2)
    assert is_over(progress_of([cursor(2), cursor(2)]), 2)
    assert not is_over(progress_of([cursor(2), cursor(2)], [cursor(2), cursor(1, 8)]), 2), "the second ps lacks some"
    assert not is_over(progress, 0), "there is no end"
    assert is_done(whole(0, 2), 2) and not is_done(whole(0, 1), 2) and not is_done(whole(0, 9), 0)


def test_where_ps_differ_reading_begins_at_the_last_and_ends_where_the_next_one_stands():
    progress = progress_of([cursor(0, 16)], [cursor(0, 8)], [cursor(1, 4)])
    assert assignment_of(0, progress) == Assignment(0, cursor(0, 8), cursor(0, 16))
    assert assignment_of(0, progress[[0, 2]]) == Assignment(0, cursor(0, 16), cursor(1))


def test_near_the_end_everybody_takes_one():
    assert fair_part(64, 2) == 16
    assert fair_part(3, 2) == fair_part(0, 8) == 1
