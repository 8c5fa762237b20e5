"""Shards of files are equal runs of their records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ps_train.data.data_shard import WHOLE, DataShard, equal_runs


def test_runs_go_over_the_ends_of_files() -> None:
    runs = [list(equal_runs([3, 0, 4], DataShard(index, 2))) for index in range(2)]
    assert runs == [[(0, 0, 3)], [(2, 0, 4)]]
    runs = [list(equal_runs([5, 2], DataShard(index, 3))) for index in range(3)]
    assert runs == [[(0, 0, 2)], [(0, 2, 4)], [(0, 4, 5), (1, 0, 2)]]
    assert list(equal_runs([2, 1], WHOLE)) == [(0, 0, 2), (1, 0, 1)]


@given(some.lists(some.integers(0, 9), max_size=6), some.integers(1, 5))
def test_every_record_is_in_one_shard_and_shards_differ_by_one_at_most(sizes: list[int], count: int) -> None:
    shards = [list(equal_runs(sizes, DataShard(index, count))) for index in range(count)]
    found = [(number, place) for runs in shards for number, start, stop in runs for place in range(start, stop)]
    assert found == [(number, place) for number, size in enumerate(sizes) for place in range(size)]
    totals = [sum(stop - start for _, start, stop in runs) for runs in shards]
    assert max(totals) - min(totals) <= 1


def test_no_run_is_empty() -> None:
    assert list(equal_runs([1], DataShard(0, 2))) == [] and list(equal_runs([], DataShard(0, 1))) == []


@pytest.mark.parametrize("index", [0, 1])
def test_a_shard_may_have_nothing(index: int) -> None:
    assert list(equal_runs([0, 0], DataShard(index, 2))) == []
