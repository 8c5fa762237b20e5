"""Runs of rows of a row group, and their columns."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ps_train.data.parquet.footers import read_footers
from ps_train.data.parquet.reading import column_in, read_run
from ps_train.data.parquet.row_runs import RowRun

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COUNT = 50


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    numbers = list(range(COUNT))
    table = pa.table({"n": numbers, "text": [f"t{n % 3}" for n in numbers], "user": [{"id": n * 2} for n in numbers]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    return str(tmp_path / "a.parquet")


def group_of(path: str, number: int) -> Any:
    return next(group for group in read_footers([path], None).groups if group.number == number)


@pytest.mark.parametrize(("first", "rows"), [(0, 30), (0, 1), (29, 1), (7, 15)])
@pytest.mark.parametrize("most_rows", [0, 4, 7])
def test_a_run_has_its_rows_with_their_places(path: str, first: int, rows: int, most_rows: int) -> None:
    found = list(read_run(group_of(path, 0), RowRun(0, first, rows), ["n", "text"], ["text"], most_rows))
    assert [n for _, batch in found for n in batch.column("n").to_pylist()] == [*range(first, first + rows)]
    assert [place for place, _ in found] == [batch.column("n")[0].as_py() for _, batch in found]
    assert not most_rows or max(batch.num_rows for _, batch in found) <= most_rows


def test_a_later_group_begins_again_and_no_columns_are_some(path: str) -> None:
    ((place, batch),) = read_run(group_of(path, 1), RowRun(1, 2, 3), ["n"], [])
    assert place == 2 and batch.column("n").to_pylist() == [32, 33, 34]
    assert sum(batch.num_rows for _, batch in read_run(group_of(path, 1), RowRun(1, 0, 20), [], [])) == 20


def test_texts_are_dictionaries_where_the_file_has_them(path: str) -> None:
    (_, batch), *_ = read_run(group_of(path, 0), RowRun(0, 0, 30), ["text"], ["text"])
    assert pa.types.is_dictionary(batch.column("text").type)
    (_, batch), *_ = read_run(group_of(path, 0), RowRun(0, 0, 30), ["text"], [])
    assert pa.types.is_string(batch.column("text").type)


def test_fields_of_structs_are_columns(path: str) -> None:
    table = pq.read_table(path)
    for rows in (table, table.to_batches()[0]):
        assert column_in(rows, "user.id").to_pylist()[:3] == [0, 2, 4]
        assert column_in(rows, "n").to_pylist()[:3] == [0, 1, 2]


def test_a_damaged_or_a_shorter_file_is_named(path: str) -> None:
    group = group_of(path, 0)
    with pytest.raises(Exception, match=r"a\.parquet has 30 rows in row group 0, not 30"):
        list(read_run(group, RowRun(0, 25, 10), ["n"], []))
    content = bytearray(pathlib.Path(path).read_bytes())
    content[10:60] = bytes(50)
    pathlib.Path(path).write_bytes(bytes(content))
    with pytest.raises(Exception, match=r"a\.parquet cannot be read: "):
        list(read_run(group, RowRun(0, 0, 30), ["n"], []))
