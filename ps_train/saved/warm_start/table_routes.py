"""Routes: the ways of a table's rows, from their places in a checkpoint to those in the new table.

    route = table_route(old_layout, new_layout)
    rows, places = route.places(begin=0, count=1000)    # of the source's rows 0 .. 999, the places of those that go on

A route is computed for any part of the source, so that a table of any size is read once, part by part.  All that has
the table's rows takes the same route: the values, the slots, the keys of ids.
"""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.engine.run_directory.checkpoint_contents import row_runs
from ps_train.modeling.tables.id_encoding import encode_ids, group_of
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.table_layout import HASHED, TableLayout
from ps_train.modeling.tables.vocabulary_index import KEYS, USED
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint

Array = np.ndarray[Any, Any]
Places = tuple[Array, Array]
"""Rows, from the first of a part, and the place of each in the new variable, int64 [n]; a row may have several."""

_PART_ROWS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Route:
    """The way of rows.

    Attributes:
      source_rows: number of rows of the source.
      places: returns the places of a part of the source, from its first row and the number of rows.
      note: what the report says about it.
    """

    source_rows: int
    places: Callable[[int, int], Places]
    note: str = ""

    @property
    def rows(self) -> int:
        """Number of rows of the new variable that are reached."""
        return sum(len(self.places(begin, count)[1]) for begin, count in row_runs(self.source_rows, _PART_ROWS))


def table_route(old: TableLayout, new: TableLayout, ids: Array | None = None) -> Route | None:
    """Returns the route of a table with a fixed number of rows to another; None if no id is known to keep its row.

    Args:
      old: its layout in the checkpoint.
      new: its layout here.
      ids: the new id of each id of the checkpoint, or -1; None: the same.
    """
    if old.kind != new.kind or old.by_field != new.by_field:
        return None
    fields = min(len(old.sizes), len(new.sizes))
    before, after = (np.array(layout.sizes[:fields], np.int64) for layout in (old, new))
    copies = np.ones(fields, np.int64)
    if new.kind == HASHED:
        if (after % before).any():
            return None
        copies = after // before
    old_offsets, new_offsets = old.offsets, new.offsets

    def places(begin: int, count: int) -> Places:
        indices = old.indices_at(begin, count)
        field = np.searchsorted(old_offsets, indices, side="right") - 1
        rows = np.flatnonzero(field < fields)
        field, number = field[rows], (indices - old_offsets[field])[rows]
        is_default = number == before[field]
        if ids is not None:
            number = np.where(is_default, -1, ids[np.minimum(number, len(ids) - 1)])
        number = np.where(
            is_default, after[field] if new.has_defaults else -1, np.where(number < after[field], number, -1)
        )
        found_rows, found = [], []
        for copy in range(int(copies.max(initial=1))):
            kept = (number >= 0) & (copy < copies[field])
            found_rows.append(rows[kept])
            found.append(new_offsets[field[kept]] + number[kept] + copy * before[field[kept]])
        return np.concatenate(found_rows), new.places_of(np.concatenate(found))

    return Route(old.total, places, _note(old, new, copies, ids))


def _note(old: TableLayout, new: TableLayout, copies: Array, ids: Array | None) -> str:
    if ids is not None:
        return "by the files of ids"
    if (copies > 1).any():
        return "each id keeps the values of its bucket"
    if len(old.sizes) != len(new.sizes):
        return f"the first {min(len(old.sizes), len(new.sizes))} fields"
    return "" if old.sizes == new.sizes else "by id"


def new_ids(old_file: str, new_file: str, old_rows: int, new_rows: int, place: str) -> Array:
    """Returns the new id of each id of a checkpoint, int64 [old_rows]; -1 for one that is gone.

    Ids beyond the files, such as the buckets of unknown words, stay if there are equally many on both sides.

    Args:
      old_file: file of the old ids, one a line.
      new_file: the same for the new ones.
      old_rows: number of ids of the checkpoint's table.
      new_rows: number of ids of the new table.
      place: line of the map, for errors.

    Raises:
      ConfigError: a file cannot be read, has an id twice, or has more ids than the table.
    """
    old, new = read_ids(old_file, old_rows, place), read_ids(new_file, new_rows, place)
    number_of = {word: number for number, word in enumerate(new)}
    found = np.full(old_rows, -1, np.int64)
    found[: len(old)] = [number_of.get(word, -1) for word in old]
    if (beyond := old_rows - len(old)) == new_rows - len(new):
        found[len(old) :] = np.arange(len(new), len(new) + beyond)
    return found


def read_ids(path: str, most: int, place: str) -> list[bytes]:
    """Returns the ids of a file, one a line.

    Raises:
      ConfigError: it cannot be read, has an id twice, or has more than `most`.
    """
    try:
        with open(path, "rb") as file:
            content = file.read().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise ConfigError(
            f"{place}: {path} cannot be read ({error.strerror}): give a file with an id a line."
        ) from None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError(f"{place}: {path} is a text in UTF-16: save it as UTF-8.")
    words = content.splitlines()
    if len(words) > most:
        raise ConfigError(f"{place}: {path} has {len(words)} ids, and the table {most}: give the file of this table.")
    if len(set(words)) < len(words):
        seen: set[bytes] = set()
        twice = next(word for word in words if word in seen or seen.add(word))  # type: ignore[func-returns-value]
        raise ConfigError(f"{place}: {path} has the id {twice.decode(errors='replace')!r} twice: give each id once.")
    return words


def keys_of(words: Sequence[bytes], table: Table, width: int, place: str) -> Array:
    """Returns the keys that an open vocabulary has for ids, int64 [n, width].

    Raises:
      ConfigError: its ids are whole numbers, and a word is none.
    """
    if width > 1:
        return _computed(lambda ids: encode_ids(table, ids), np.array(words, object), tf.string)
    try:
        return np.array([int(word) for word in words], np.int64).reshape(-1, 1)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{place}: the ids of table {table.name} are whole numbers: {error}.") from None


class Ids:
    """The ids of an open vocabulary of a checkpoint.

    Args:
      source: the checkpoint.
      name: name of the table.

    Attributes:
      rows: number of its rows.
      width: numbers in a key.
      groups: number of groups.
    """

    def __init__(self, source: SourceCheckpoint, name: str) -> None:
        self._source, self._name = source, name
        self.rows, self.width = source.kinds[f"{name}/{KEYS}"][0]

    def read(self, begin: int, count: int) -> tuple[Array, Array]:
        """Returns the keys, int64 [count, width], and the use counts, int64 [count, 3], of some rows."""
        return self._source.read(f"{self._name}/{KEYS}", begin, count), self._source.read(
            f"{self._name}/{USED}", begin, count
        )


def route_to_open(keys: Callable[[int, int], tuple[Array, Array]], rows: int, new: Table, note: str) -> Route:
    """Returns the route of ids to the rows that an open vocabulary gives them.

    A group that has too few rows takes the ids that were used most.

    Args:
      keys: returns the keys and the use counts of a part of the source; 0 for a row without an id.
      rows: number of rows of the source.
      new: the open vocabulary.
      note: what the report says.
    """
    group, rating, last = np.full(rows, -1, np.int16), np.zeros(rows, np.int32), np.zeros(rows, np.int64)
    for begin, count in row_runs(rows, _PART_ROWS):
        some, used = keys(begin, count)
        part = slice(begin, begin + count)
        found = _computed(lambda given: group_of(given, new.groups), some, tf.int64)
        group[part] = np.where(used[:, 0] > 0, found, -1)
        rating[part], last[part] = np.minimum(used[:, 0], (1 << 31) - 1), used[:, 1]
    target = np.full(rows, -1, np.int32)
    for number in range(new.groups):
        members = np.flatnonzero(group == number)
        room = new.rows_per_group - 1
        if len(members) > room:
            best = np.lexsort((members, -last[members], -rating[members].astype(np.int64)))[:room]
            members = np.sort(members[best])
        target[members] = number * new.rows_per_group + np.arange(len(members))
    return Route(rows, _places_by(target), note)


def route_from_open(ids: Ids, new: TableLayout, known: tuple[Array, Array] | None) -> Route:
    """Returns the route of an open vocabulary's ids to a table with a fixed number of rows.

    Args:
      ids: the vocabulary.
      new: layout of the table, of one field.
      known: keys, int64 [n, width], and the id of each; None: a key is the id itself.
    """
    order = None if known is None else np.argsort(_joined(known[0]))

    def places(begin: int, count: int) -> Places:
        keys, used = ids.read(begin, count)
        if known is None or order is None:
            number = np.where((keys[:, 0] >= 0) & (keys[:, 0] < new.sizes[0]), keys[:, 0], -1)
        else:
            stored, wanted = _joined(known[0])[order], _joined(keys)
            at = np.minimum(np.searchsorted(stored, wanted), max(0, len(stored) - 1))
            number = np.where(stored[at] == wanted, known[1][order][at], -1) if len(stored) else np.full(count, -1)
        rows = np.flatnonzero((used[:, 0] > 0) & (number >= 0))
        return rows, new.places_of(number[rows])

    return Route(ids.rows, places, "by id, of an open vocabulary")


def single_row(source_rows: int, row: int, place: int) -> Route:
    """Returns the route of one row."""

    def places(begin: int, count: int) -> Places:
        is_here = begin <= row < begin + count
        return (np.array([row - begin]), np.array([place])) if is_here else (np.zeros(0, int), np.zeros(0, int))

    return Route(source_rows, places)


def _places_by(target: Array) -> Callable[[int, int], Places]:
    def places(begin: int, count: int) -> Places:
        part = target[begin : begin + count]
        rows = np.flatnonzero(part >= 0)
        return rows, part[rows].astype(np.int64)

    return places


def _joined(keys: Array) -> Array:
    """Returns keys as values that can be sorted, [n]."""
    keys = np.ascontiguousarray(keys)
    return keys[:, 0] if keys.shape[1] == 1 else keys.view(np.dtype([("a", np.int64), ("b", np.int64)]))[:, 0]


def _computed(function: Callable[[tf.Tensor], tf.Tensor], array: Array, dtype: tf.DType) -> Array:
    """Returns what a function of a tensor gives, computed in this process."""
    with tf.Graph().as_default() as graph, tf.device("/device:CPU:0"):
        given = v1.placeholder(dtype, [None, *array.shape[1:]])
        result = function(given)
    with v1.Session(graph=graph, config=v1.ConfigProto(device_count={"GPU": 0})) as session:
        return np.asarray(session.run(result, {given: array}))
