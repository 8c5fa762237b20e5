"""Routes of a table's rows: each id has its values at its new place; against plain dictionaries."""

from __future__ import annotations

import pathlib
import types
from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import ConfigError
from ps_train.modeling.tables.id_encoding import group_of
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.table_layout import HASHED, OPEN, ROWS, TableLayout
from ps_train.modeling.tables.vocabulary_index import KEYS, USED
from ps_train.saved.warm_start.table_routes import (
    Ids,
    Route,
    keys_of,
    new_ids,
    read_ids,
    route_from_open,
    route_to_open,
    single_row,
    table_route,
)


def way_of(route: Route | None, part: int = 7) -> dict[int, list[int]]:
    """New place to the places of the source that lead there, read in parts."""
    assert route is not None
    found: dict[int, list[int]] = {}
    for begin in range(0, route.source_rows, part):
        rows, places = route.places(begin, min(part, route.source_rows - begin))
        for row, place in zip(rows, places, strict=True):
            found.setdefault(int(place), []).append(begin + int(row))
    assert route.rows == sum(map(len, found.values()))
    return found


def place(layout: TableLayout, field: int, number: int) -> int:
    """Place of a number of a field, counted by hand."""
    before = sum(size + layout.has_defaults for size in layout.sizes[:field])
    return int(layout.places_of(np.array([before + number]))[0])


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize(
    ("old_sizes", "new_sizes", "old_default", "new_default"),
    [
        ((9,), (14,), False, False),
        ((14,), (9,), True, True),
        ((9,), (9,), True, False),
        ((9,), (9,), False, True),
        ((5, 3, 8), (6, 3), True, True),
        ((5, 3), (4, 3, 2), True, False),
    ],
)
def test_an_id_of_a_field_keeps_its_row_and_a_default_row_stays_one(
    old_sizes: tuple[int, ...], new_sizes: tuple[int, ...], old_default: bool, new_default: bool, in_blocks: bool
) -> None:
    by_field = len(old_sizes) > 1
    old = TableLayout(ROWS, old_sizes, by_field, old_default, in_blocks)
    new = TableLayout(ROWS, new_sizes, by_field, new_default, not in_blocks)
    expected = {}
    for field, (before, after) in enumerate(zip(old_sizes, new_sizes, strict=False)):
        for number in range(min(before, after)):
            expected[place(new, field, number)] = [place(old, field, number)]
        if old_default and new_default:
            expected[place(new, field, after)] = [place(old, field, before)]
    assert way_of(table_route(old, new)) == expected


def test_each_copy_of_a_bucket_begins_with_its_values() -> None:
    old, new = TableLayout(HASHED, (4, 3), by_field=True), TableLayout(HASHED, (8, 3), by_field=True)
    route = table_route(old, new)
    expected = {place(new, 0, number): [place(old, 0, number % 4)] for number in range(8)}
    expected |= {place(new, 1, number): [place(old, 1, number)] for number in range(3)}
    assert way_of(route) == expected and route is not None and route.note == "each id keeps the values of its bucket"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TableLayout(HASHED, (4,)), TableLayout(HASHED, (6,))),
        (TableLayout(HASHED, (4,)), TableLayout(HASHED, (2,))),
        (TableLayout(ROWS, (4,)), TableLayout(HASHED, (4,))),
        (TableLayout(ROWS, (4,)), TableLayout(ROWS, (4,), by_field=True)),
    ],
)
def test_no_route_where_no_id_is_known_to_keep_its_row(old: TableLayout, new: TableLayout) -> None:
    assert table_route(old, new) is None


def test_ids_from_files_move_and_those_that_are_gone_lead_nowhere() -> None:
    old = TableLayout(ROWS, (5,), has_defaults=True)
    new = TableLayout(ROWS, (6,), has_defaults=True)
    route = table_route(old, new, np.array([3, -1, 0, 5, -1]))
    expected = {place(new, 0, to): [place(old, 0, number)] for number, to in ((0, 3), (2, 0), (3, 5))}
    assert way_of(route) == expected | {place(new, 0, 6): [place(old, 0, 5)]}
    assert route is not None and route.note == "by the files of ids"


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [((4,), (4,), ""), ((4,), (5,), "by id"), ((4, 3), (4, 3, 9), "the first 2 fields"), ((4, 3), (4,), "the first 1")],
)
def test_the_report_says_what_counts(old: tuple[int, ...], new: tuple[int, ...], note: str) -> None:
    route = table_route(TableLayout(ROWS, old, True), TableLayout(ROWS, new, True))
    assert route is not None and route.note.startswith(note) and bool(route.note) == bool(note)


def ids_file(directory: pathlib.Path, name: str, content: str | bytes) -> str:
    (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(directory / name)


@pytest.mark.parametrize(
    ("old_rows", "new_rows", "beyond"), [(5, 6, [4, 5]), (5, 7, [-1, -1]), (3, 4, []), (3, 5, []), (5, 5, [-1, -1])]
)
def test_ids_beyond_the_files_stay_where_both_sides_have_as_many(
    tmp_path: pathlib.Path, old_rows: int, new_rows: int, beyond: list[int]
) -> None:
    old, new = ids_file(tmp_path, "old", "a\nb\nc\n"), ids_file(tmp_path, "new", "c\nx\na\ny")
    assert new_ids(old, new, old_rows, new_rows, "m:1").tolist() == [2, -1, 0, *beyond]


def test_the_lines_of_a_file_are_its_ids(tmp_path: pathlib.Path) -> None:
    assert read_ids(ids_file(tmp_path, "a", b"\xef\xbb\xbfx\r\n\xff\ny z"), 3, "m:1") == [b"x", b"\xff", b"y z"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a\nb\nc\n", "m:1: .* has 3 ids, and the table 2: give the file of this table"),
        ("a\na\n", "m:1: .* has the id 'a' twice"),
        ("a".encode("utf-16"), "is a text in UTF-16: save it as UTF-8"),
        (None, "m:1: .* cannot be read .No such file"),
    ],
)
def test_a_wrong_file_of_ids_is_named(tmp_path: pathlib.Path, content: str | bytes | None, words: str) -> None:
    path = str(tmp_path / "none") if content is None else ids_file(tmp_path, "a", content)
    with pytest.raises(ConfigError, match=words):
        read_ids(path, 2, "m:1")


def test_keys_are_whole_numbers_or_codes_of_strings() -> None:
    table = Table("t", 2, capacity=10)
    assert keys_of([b"7", b"-3"], table, 1, "m:1").tolist() == [[7], [-3]]
    for wrong in (b"x", b"9223372036854775808"):
        with pytest.raises(ConfigError, match="m:1: the ids of table t are whole numbers: "):
            keys_of([b"7", wrong], table, 1, "m:1")
    coded = keys_of([b"a", b"b", b"a"], table, 2, "m:1")
    assert coded.shape == (3, 2) and coded[0].tolist() == coded[2].tolist() != coded[1].tolist()


def test_a_vocabulary_gives_rows_to_the_ids_that_were_used_most_and_then_last() -> None:
    used = np.array([[5, 1, 0], [0, 9, 0], [2, 3, 0], [2, 4, 0], [1 << 40, 0, 0], [2, 4, 0]])
    keys = np.arange(6)[:, np.newaxis]
    route = route_to_open(lambda begin, count: (keys[begin : begin + count], used[begin : begin + count]), 6,
                          Table("t", 2, capacity=3), "note")  # fmt: skip
    assert way_of(route, 4) == {0: [0], 1: [3], 2: [4]} and route.note == "note"


def test_each_id_gets_a_row_of_its_own_group() -> None:
    table, keys = Table("t", 2, capacity=600), np.arange(90)[:, np.newaxis]
    assert table.groups > 1
    found = way_of(route_to_open(lambda begin, count: (keys[begin : begin + count], np.ones([count, 3], int)), 90,
                                 table, ""))  # fmt: skip
    groups = group_of(keys, table.groups).numpy()
    assert sorted(row for rows in found.values() for row in rows) == list(range(90))
    assert all(groups[row] == place // table.rows_per_group for place, (row,) in found.items())
    last = table.rows_per_group - 1
    assert not any(place % table.rows_per_group == last for place in found), "the last row of a group is never given"


class Vocabulary:
    """The ids of an open vocabulary."""

    def __init__(self, keys: Any, used: Any) -> None:
        self._keys, self._used = np.array(keys, np.int64), np.array(used)
        self.rows, self.width = self._keys.shape

    def read(self, begin: int, count: int) -> tuple[Any, Any]:
        used = self._used[begin : begin + count]
        return self._keys[begin : begin + count], np.stack([used, 0 * used, 0 * used], 1)


def test_an_id_of_a_vocabulary_is_the_row_of_a_plain_table() -> None:
    layout = TableLayout(ROWS, (300,))
    ids: Any = Vocabulary([[299], [0], [300], [-1], [7], [8]], [1, 1, 1, 1, 0, 2])
    route = route_from_open(ids, layout, None)
    assert way_of(route, 2) == {place(layout, 0, number): [row] for number, row in ((299, 0), (0, 1), (8, 5))}


@pytest.mark.parametrize("width", [1, 2])
def test_an_id_of_a_vocabulary_has_the_row_that_a_file_gives_it(width: int) -> None:
    layout = TableLayout(ROWS, (300,))
    known = np.array([[50, 1], [-4, 2], [50, 3]][: 2 if width == 1 else 3])[:, :width]
    ids: Any = Vocabulary(np.array([[-4, 2], [50, 1], [60, 1], [50, 2], [50, 3]])[:, :width], [1, 3, 1, 1, 0])
    found = way_of(route_from_open(ids, layout, (known, np.array([10, 20, 30])[: len(known)])), 3)
    expected = {place(layout, 0, 20): [0], place(layout, 0, 10): [1, 3] if width == 1 else [1]}
    assert found == expected
    assert way_of(route_from_open(ids, layout, (known[:0], np.zeros(0, int)))) == {}


def test_a_file_of_one_id_gives_no_other_id_its_row() -> None:
    ids: Any = Vocabulary([[3], [9], [5]], [1, 1, 1])
    found = route_from_open(ids, TableLayout(ROWS, (4,), in_blocks=False), (np.array([[5]]), np.array([2])))
    assert way_of(found) == {2: [2]}


def test_the_ids_of_a_vocabulary_are_read_by_rows() -> None:
    keys, used = np.arange(10).reshape(5, 2), np.arange(15).reshape(5, 3)
    stored = {f"t/{KEYS}": keys, f"t/{USED}": used}
    source: Any = types.SimpleNamespace(
        kinds={name: (list(array.shape), "int64") for name, array in stored.items()},
        read=lambda name, begin, count: stored[name][begin : begin + count],
    )
    ids = Ids(source, "t")
    found = ids.read(1, 3)
    assert (ids.rows, ids.width) == (5, 2)
    assert np.array_equal(found[0], keys[1:4]) and np.array_equal(found[1], used[1:4])


def test_one_row_goes_alone() -> None:
    for row in (0, 6, 7, 19):
        assert way_of(single_row(20, row, 3)) == {3: [row]}


def test_an_open_layout_has_no_route_by_rows() -> None:
    assert table_route(TableLayout(OPEN, (4,), in_blocks=False), TableLayout(ROWS, (4,))) is None
