"""The cut of row groups into runs of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ps_train.data.data_shard import DataShard
from ps_train.data.parquet.row_runs import RowRun, limited_runs, runs_of_share

ROWS = st.lists(st.integers(1, 50), max_size=8)


def rows_of(runs: list[RowRun]) -> list[tuple[int, int]]:
    return [(run.group, run.first + row) for run in runs for row in range(run.rows)]


def all_rows(rows: list[int]) -> list[tuple[int, int]]:
    return [(group, row) for group, count in enumerate(rows) for row in range(count)]


@given(ROWS, st.integers(1, 20))
def test_the_shares_are_all_rows_in_order_and_equal(rows: list[int], replicas: int) -> None:
    shares = [rows_of(runs_of_share(rows, DataShard(index, replicas))) for index in range(replicas)]
    assert [row for share in shares for row in share] == all_rows(rows)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(ROWS, st.integers(1, 60))
def test_limited_runs_are_all_rows_and_of_about_the_same_size(rows: list[int], limit: int) -> None:
    runs = list(limited_runs(rows, [limit] * len(rows)))
    assert rows_of(runs) == all_rows(rows)
    for group in range(len(rows)):
        sizes = [run.rows for run in runs if run.group == group]
        assert min(sizes) > 0 and max(sizes) <= limit and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("index, runs", [(0, [RowRun(0, 0, 3), RowRun(1, 0, 2)]), (1, [RowRun(1, 2, 5)])])
def test_a_group_in_the_middle_is_divided(index: int, runs: list[RowRun]) -> None:
    assert runs_of_share([3, 7], DataShard(index, 2)) == runs
