"""Tables of an export in parts: rows in sorted shards of numpy files, and a graph that takes rows as inputs.

    lookups = SplitLookups()
    with rows_from(lookups):
        outputs = model.forward(features, False)
    split = lookups.resolve()               # split.ids and split.rows: tensors by the name of the table
    write_tables(split.tables, CheckpointValues(checkpoint), "/models/run1/export/3")

A shard has the rows of a run of ids, or keys of an open vocabulary, in their order.  It is made of records that are
first written into files by ranges of ids, so memory is bounded by a shard, whatever the size of the table.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.untrusted import UntrustedError, inner_path
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues, row_runs
from ps_train.modeling.tables.deferred_lookups import DeferredLookups, FetchedRows
from ps_train.modeling.tables.row_order import begins, numbers_at
from ps_train.modeling.tables.row_source import LookupResult, declared_tables, own_rows
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.vocabulary_index import KEYS, UPDATE_COUNT, USED
from ps_train.saved.values import hash_of_file

MANIFEST = "tables.json"
_FORMAT = 1
_FOLDER = "tables"
_PART_BYTES, SHARD_BYTES = 8 << 20, 16 << 20
"""Bytes of rows that are read at once, and about those of a shard."""

_SAMPLE = 1 << 16
"""Keys of which the ranges of an open vocabulary's shards are found."""


@dataclasses.dataclass(frozen=True)
class SplitLookups:
    """The lookups of a model whose rows are inputs of the graph; a `row_source.Source`.

    The default row of an open vocabulary stays in the graph, where no lookup uses it: the reader of the tables gives
    it for an unknown key.
    """

    deferred: DeferredLookups = dataclasses.field(default_factory=DeferredLookups)

    def __call__(self, name: str, table: Table, positions: tf.Tensor, used: tf.Tensor | None = None) -> LookupResult:
        """Returns the rows of a lookup, which are bound by `resolve`."""
        if any(name == f"{other}/default" and one.is_open for other, one in declared_tables(positions.graph).items()):
            return own_rows(name, table, positions)
        return self.deferred(name, table, positions, used)

    def resolve(self) -> SplitTables:
        """Makes the inputs and outputs of all tables, after the last lookup.

        Raises:
          ModelError: ids depend on rows.
        """
        requests, declared = self.deferred.requests(), declared_tables(v1.get_default_graph())
        tables = {name: declared[name] for name in requests}
        ids = {name: _ids(tables[name], wanted) for name, wanted in requests.items()}
        rows = {
            name: v1.placeholder(tf.float32, [None, *table.row_shape], f"rows/{name}") for name, table in tables.items()
        }
        found = {}
        for name, table in tables.items():
            count = tf.shape(ids[name])[0]
            known = tf.ones([count], tf.bool) if table.is_open else None
            found[name] = FetchedRows(rows[name], tf.range(count), known)
        self.deferred.resolve(found)
        return SplitTables(tables, ids, rows)


@dataclasses.dataclass(frozen=True)
class SplitTables:
    """The tables of a graph that takes rows as inputs.

    Attributes:
      tables: name to table.
      ids: name to the ids of all lookups of the table, int64 [n], or keys [n, width] of an open vocabulary.
      rows: name to the placeholder of their rows, float32 [n, dimension].
    """

    tables: Mapping[str, Table]
    ids: Mapping[str, tf.Tensor]
    rows: Mapping[str, tf.Tensor]


def _ids(table: Table, wanted: tf.Tensor) -> tf.Tensor:
    """Returns the ids of the rows at positions; keys as they are."""
    if table.is_open or table.has_natural_order:
        return wanted
    first = begins(table.total)
    order = np.argsort(first)
    rank = tf.searchsorted(tf.constant(first[order]), wanted, "right") - 1
    block = tf.gather(tf.constant(order.astype(np.int64)), rank)
    return (wanted - tf.gather(tf.constant(first), block)) * len(first) + block


def write_tables(tables: Mapping[str, Table], values: CheckpointValues, folder: str) -> None:
    """Writes the shards and the manifest of tables.

    Args:
      tables: name to table.
      values: the checkpoint.
      folder: directory of the export.
    """
    found = {name: _write_table(name, table, values, folder) for name, table in tables.items()}
    with open(os.path.join(folder, MANIFEST), "w") as file:
        json.dump({"format": _FORMAT, "tables": found}, file, indent=1)


def _write_table(name: str, table: Table, values: CheckpointValues, folder: str) -> dict[str, Any]:
    width = values.kinds[f"{name}/{KEYS}"][0][1] if table.is_open else 1
    record = np.dtype([("key", "<i8", (width,)), ("row", "<f4", table.row_shape)])
    cuts = _cuts(name, table, values, record.itemsize)
    try:
        inside = os.path.join(_FOLDER, inner_path(name))
    except UntrustedError as error:
        raise ModelError(f"table {name} cannot be exported in parts: {error}.") from None
    unsorted = os.path.join(folder, inside, "unsorted")
    os.makedirs(unsorted)
    for records in _records(name, table, values, record):
        shard = np.searchsorted(cuts, _comparable(records["key"]), "right")
        order = np.argsort(shard, kind="stable")
        numbers, begin = np.unique(shard[order], return_index=True)
        for number, rows in zip(numbers, np.split(order, begin[1:]), strict=True):
            with open(os.path.join(unsorted, str(number)), "ab") as file:
                records[rows].tofile(file)
    shards: list[dict[str, Any]] = []
    for number in sorted(map(int, os.listdir(unsorted))):
        path = os.path.join(unsorted, str(number))
        records = np.fromfile(path, record)
        os.remove(path)
        records = records[np.argsort(_comparable(records["key"]), kind="stable")]
        shards.append(_write_shard(records, folder, f"{inside}/{len(shards):05}", has_keys=table.is_open))
    shutil.rmtree(unsorted)
    default = [0.0] * table.dimension
    if table.is_open and f"{name}/default" in values.kinds:
        default = values.read(f"{name}/default")[0].tolist()
    return {
        "input": f"rows/{name}", "dimension": table.dimension, "dtype": "float32", "key_width": width,
        "kind": "keys" if table.is_open else "ids", "rows": sum(shard["count"] for shard in shards),
        "default": default, "shards": shards,
    }  # fmt: skip


def _write_shard(records: Any, folder: str, name: str, has_keys: bool) -> dict[str, Any]:
    parts = {"rows": records["row"]} | ({"keys": records["key"]} if has_keys else {})
    shard: dict[str, Any] = {"keys": None}
    for part, array in parts.items():
        shard[part] = f"{name}.{part}.npy"
        np.save(os.path.join(folder, shard[part]), np.ascontiguousarray(array))
        shard[f"{part}_sha256"] = hash_of_file(os.path.join(folder, shard[part]))
    ends = {"first": records["key"][0].tolist(), "last": records["key"][-1].tolist()}
    return {**shard, **ends, "count": len(records)}


def _comparable(keys: Any) -> Any:
    """Returns keys [n, width] as an array [n] that numpy sorts: by the first number, then by the second."""
    width = keys.shape[1]
    return np.ascontiguousarray(keys).view(",".join(["<i8"] * width)).ravel()


def _records(name: str, table: Table, values: CheckpointValues, record: np.dtype[Any]) -> Iterator[Any]:
    """Yields all rows with their ids or keys, some at a time, in the order of the checkpoint."""
    for begin, count in _runs(table, record.itemsize):
        rows = values.read(name, begin, count)
        if table.is_open:
            keys, is_alive = _keys(name, table, values, begin, count)
            keys, rows = keys[is_alive], rows[is_alive]
        else:
            places = np.arange(begin, begin + count)
            keys = (places if table.has_natural_order else numbers_at(places, table.total))[:, np.newaxis]
        found = np.empty(len(keys), record)
        found["key"], found["row"] = keys, rows
        yield found


def _runs(table: Table, size: int) -> list[tuple[int, int]]:
    return list(row_runs(table.total, max(1, _PART_BYTES // size)))


def _keys(name: str, table: Table, values: CheckpointValues, begin: int, count: int) -> tuple[Any, Any]:
    """Returns the keys of some rows, and which of them an id has that has not expired."""
    keys, used = (values.read(f"{name}/{part}", begin, count) for part in (KEYS, USED))
    is_alive = used[:, 0] > 0
    if table.expire_steps is not None:
        updates = values.read(f"{name}/{UPDATE_COUNT}")
        groups = np.arange(begin, begin + count) // table.rows_per_group
        is_alive &= updates[groups] - used[:, 1] < table.expire_steps
    return keys, is_alive


def _cuts(name: str, table: Table, values: CheckpointValues, size: int) -> Any:
    """Returns the keys at which shards but the first one begin, as `_comparable` makes them."""
    if not table.is_open:
        step = max(1, SHARD_BYTES // size)
        return np.arange(step, table.total, step)
    shards = -(-table.total * size // SHARD_BYTES)
    taken, every = [], max(1, table.total // _SAMPLE)
    for begin, count in _runs(table, size):
        keys, is_alive = _keys(name, table, values, begin, count)
        taken.append(keys[is_alive][::every])
    sample = np.sort(_comparable(np.concatenate(taken)))
    return sample[[len(sample) * number // shards for number in range(1, shards)]] if len(sample) else sample
