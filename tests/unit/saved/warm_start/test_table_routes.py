"""Routes of rows from one layout of a table to another."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import ConfigError
from ps_train.embeddings import Table
from ps_train.modeling.tables.table_layout import HASHED, OPEN, ROWS, TableLayout
from ps_train.saved.warm_start.table_routes import (
    Route,
    keys_of,
    new_ids,
    read_ids,
    route_from_open,
    route_to_open,
    single_row,
    table_route,
)


def moved(route: Route | None, old: np.ndarray, new_rows: int, at_once: int = 3) -> list[Any]:
    """The new table, -1 where no row comes to."""
    assert route is not None
    found = np.full(new_rows, -1)
    for begin in range(0, route.source_rows, at_once):
        rows, places = route.places(begin, min(at_once, route.source_rows - begin))
        found[places] = old[begin + rows]
    assert route.rows == int((found >= 0).sum())
    return found.tolist()


def natural(*sizes: int, kind: str = ROWS, **options: Any) -> TableLayout:
    return TableLayout(kind, sizes, in_blocks=False, **options)


def test_ids_keep_their_rows_in_a_larger_and_in_a_smaller_table() -> None:
    old = np.arange(5)
    assert moved(table_route(natural(5), natural(7)), old, 7) == [0, 1, 2, 3, 4, -1, -1]
    assert moved(table_route(natural(5), natural(3)), old, 3) == [0, 1, 2]


def test_rows_in_blocks_go_by_their_ids() -> None:
    old, new = TableLayout(ROWS, (500,)), TableLayout(ROWS, (700,))
    values = np.empty(500, int)
    values[old.places_of(np.arange(500))] = np.arange(500)
    found = np.array(moved(table_route(old, new), values, 700, at_once=99))
    assert found[new.places_of(np.arange(500))].tolist() == [*range(500)]
    assert (found[new.places_of(np.arange(500, 700))] == -1).all()


def test_fields_grow_apart_and_default_rows_stay_defaults() -> None:
    old = natural(2, 1, by_field=True, has_defaults=True)  # rows 0 1 D 3 D
    new = natural(3, 2, by_field=True, has_defaults=True)
    assert moved(table_route(old, new), np.arange(5), 7) == [0, 1, -1, 2, 3, -1, 4]
    assert moved(table_route(old, natural(1, by_field=True, has_defaults=True)), np.arange(5), 2) == [0, 2]
    assert moved(table_route(old, natural(2, 1, by_field=True)), np.arange(5), 3) == [0, 1, 3]
    assert moved(table_route(natural(1, by_field=True), new), np.arange(1), 7) == [0, -1, -1, -1, -1, -1, -1]


def test_a_multiple_of_the_buckets_copies_each_bucket() -> None:
    old = natural(2, kind=HASHED)
    assert moved(table_route(old, natural(6, kind=HASHED)), np.arange(2), 6) == [0, 1, 0, 1, 0, 1]
    assert table_route(old, natural(5, kind=HASHED)) is None
    assert table_route(natural(4, kind=HASHED), old) is None


def test_layouts_of_different_kinds_have_no_route() -> None:
    assert table_route(natural(4), natural(4, kind=HASHED)) is None
    assert table_route(natural(4), natural(4, by_field=True)) is None


def test_files_of_ids_say_which_row_becomes_which(tmp_path: pathlib.Path) -> None:
    (tmp_path / "old").write_bytes(b"\xef\xbb\xbfa\nb\nc\n")
    (tmp_path / "new").write_bytes(b"c\r\nx\r\na\r\n")
    paths = str(tmp_path / "old"), str(tmp_path / "new")
    ids = new_ids(*paths, 5, 5, "m:1")
    assert ids.tolist() == [2, -1, 0, 3, 4]  # equally many beyond the files: they stay
    assert new_ids(*paths, 5, 6, "m:1").tolist() == [2, -1, 0, -1, -1]
    assert moved(table_route(natural(5), natural(5), ids), np.arange(5), 5) == [2, -1, 0, 3, 4]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"a\nb\na\n", "has the id 'a' twice"),
        (b"a\nb\nc\nd\n", "has 4 ids, and the table 3"),
        (b"\xff\xfea\0", "UTF-16"),
    ],
)
def test_a_wrong_file_of_ids_is_refused(tmp_path: pathlib.Path, content: bytes, fault: str) -> None:
    (tmp_path / "ids").write_bytes(content)
    with pytest.raises(ConfigError, match=f"^m:1: .*{fault}"):
        read_ids(str(tmp_path / "ids"), 3, "m:1")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_ids(str(tmp_path / "none"), 3, "m:1")


def test_keys_of_whole_numbers_and_of_strings() -> None:
    table = Table("t", dimension=2, capacity=64)
    assert keys_of([b"7", b"-1"], table, 1, "m:1").tolist() == [[7], [-1]]
    strings = keys_of([b"ab", b"cd", b"ab"], table, 2, "m:1")
    assert strings.shape == (3, 2) and (strings[0] == strings[2]).all() and (strings[0] != strings[1]).any()
    with pytest.raises(ConfigError, match="ids of table t are whole numbers"):
        keys_of([b"x"], table, 1, "m:1")


def open_rows(keys: list[int], uses: list[int], last: list[int]) -> Any:
    stored = np.array(keys)[:, np.newaxis]
    used = np.stack([uses, last, uses], 1).astype(np.int64)
    return lambda begin, count: (stored[begin : begin + count], used[begin : begin + count])


def test_a_group_with_too_few_rows_takes_the_most_used_ids() -> None:
    table = Table("t", dimension=2, capacity=64)
    count = table.total  # more ids than rows
    keys = [*range(count)]
    uses = [1 + number % 7 for number in keys]
    route = route_to_open(open_rows(keys, uses, keys), count, table, "by id")
    rows, places = route.places(0, count)
    assert len(set(places.tolist())) == len(places) < count
    assert (places % table.rows_per_group < table.rows_per_group - 1).all()  # a group's last row stays free
    for group in range(table.groups):
        taken = [uses[row] for row, place in zip(rows, places, strict=True) if place // table.rows_per_group == group]
        assert len(taken) <= table.rows_per_group - 1
    left = {*keys} - {*rows.tolist()}
    if table.groups == 1:
        assert max(uses[row] for row in left) <= min(uses[row] for row in rows)


def test_rows_without_an_id_do_not_move() -> None:
    table = Table("t", dimension=2, capacity=64)
    rows, _ = route_to_open(open_rows([5, 6, 7], [1, 0, 2], [1, 1, 1]), 3, table, "").places(0, 3)
    assert rows.tolist() == [0, 2]


class Ids:
    rows = 4

    def __init__(self, keys: list[int], uses: list[int]) -> None:
        self.read = open_rows(keys, uses, uses)


def test_a_vocabularys_ids_become_rows() -> None:
    ids: Any = Ids([2, 9, 0, 1], [1, 1, 0, 3])
    assert moved(route_from_open(ids, natural(5), None), np.arange(4), 5) == [-1, 3, 0, -1, -1]
    known = np.array([[9], [2]]), np.array([4, 1])
    assert moved(route_from_open(ids, natural(5), known), np.arange(4), 5) == [-1, 0, -1, -1, 1]


def test_one_row_alone() -> None:
    assert moved(single_row(10, 7, 0), np.arange(10), 1) == [7]


def test_an_open_table_has_no_fixed_route() -> None:
    assert table_route(natural(4, kind=OPEN), natural(4)) is None
