"""Rows of Parquet files and of TFRecord files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.data_shard import DataShard
from ps_train.data.opened_files import opened, told_as_data_error
from ps_train.data.parquet.arrow import pa
from ps_train.data.parquet.columns import is_text
from ps_train.data.parquet.footers import RowGroup, read_footers
from ps_train.data.parquet.reading import column_in, read_run
from ps_train.data.parquet.row_runs import limited_runs
from ps_train.data.record_files import TFRecords
from ps_train.data.record_index import HEADER_BYTES, index_of, is_header
from ps_train.data.stream import data_error
from ps_train.saved.scoring.rows import Data, DataSpec, Features, Rows, check_columns, defaults_for
from ps_train.saved.serving.exported import Exported
from ps_train.saved.serving.feature_values import Feature

_PART_ROWS = 1 << 20
"""Most rows of a part of a Parquet file: its row groups are decoded from their beginnings."""

_PART_RECORDS = 1 << 17
"""Records of a part of a TFRecord file."""


class ParquetData(Data):
    """Rows of Parquet files; a part is a row group, or a run of its rows.

    Args:
      spec: has the defaults.
      features: what a model takes of them.
      extra: further columns that must be there.
    """

    def __init__(
        self, files: Sequence[str], spec: DataSpec, features: Mapping[str, Feature], extra: Sequence[str]
    ) -> None:
        self.files = files
        footers = read_footers(files, None)
        self.columns: list[str] = list(footers.fields)
        check_columns(self.columns, [*features, *extra])
        self.values = Features(features, defaults_for(spec, features, self.columns))
        for name in features:
            self.values.check(name, footers.fields[name])
        self._groups = footers.groups
        self._read = [name for name in self.columns if name not in footers.constants]
        self._texts = [name for name in features if name in self._read and is_text(footers.fields[name])]
        self._runs = list(limited_runs([group.rows for group in self._groups], [_PART_ROWS] * len(self._groups)))
        self.parts = len(self._runs)

    def read(self, part: int, batch_size: int) -> Iterator[Rows]:
        """Yields the rows of a part."""
        run = self._runs[part]
        group = self._groups[run.group]
        try:
            for first, batch in read_run(group, run, self._read, self._texts, batch_size):
                yield _ParquetRows(self, group, group.first_row + first, batch)
        except ValueError as error:
            raise data_error(error) or error from None


class _ParquetRows(Rows):
    def __init__(self, data: ParquetData, group: RowGroup, first: int, batch: pa.RecordBatch) -> None:
        self._data, self._group, self._first, self._batch = data, group, first, batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def _column(self, name: str) -> pa.Array:
        constant = self._group.constants.get(name)
        return column_in(self._batch, name) if constant is None else pa.repeat(constant, len(self))

    def _place(self, row: int) -> str:
        return f"{self._group.path} row {self._first + row}, counted from 0,"

    def values(self) -> Mapping[str, Any]:
        values = self._data.values
        return {name: values.value(name, self._column(name), self._place) for name in values.features}

    def carried(self, columns: Sequence[str] | None) -> dict[str, pa.Array]:
        found = {name: self._column(name) for name in (self._data.columns if columns is None else columns)}
        return {
            name: one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for name, one in found.items()
        }


class RecordData(Data):
    """Records of TFRecord files; a part is a run of records, or a compressed file."""

    columns = None
    is_of_examples = True

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files
        self._parts: list[tuple[str, DataShard]] = []
        for path in files:
            with told_as_data_error(path), opened(path) as file:
                plain = is_header(file.read(HEADER_BYTES)) and os.path.exists(path)
            count = max(1, -(-index_of(path).count // _PART_RECORDS)) if plain else 1
            self._parts += [(path, DataShard(index, count)) for index in range(count)]
        self.parts = len(self._parts)

    def read(self, part: int, batch_size: int) -> Iterator[ExampleRows]:
        """Yields the records of a part."""
        path, shard = self._parts[part]
        records = TFRecords(path, lambda records: (records, records))
        try:
            for serialized, _ in records.chunks(shard, None).rebatch(batch_size):
                yield ExampleRows(path, serialized.numpy())
        except (tf.errors.OpError, ValueError) as error:
            raise data_error(error) or error from None


class ExampleRows(Rows):
    """Serialized `tf.train.Example`s.

    Attributes:
      serialized: the examples, objects [n].
    """

    def __init__(self, path: str, serialized: np.ndarray[Any, Any]) -> None:
        self._path, self.serialized = path, serialized

    def __len__(self) -> int:
        return len(self.serialized)

    def values(self) -> Mapping[str, Any]:
        """Refused: only a signature for examples takes them."""
        raise DataError(f"{self._path} has serialized examples, which the model does not take.")

    def predictions(self, exported: Exported) -> Mapping[str, Any]:
        """Returns what the model's signature for examples does."""
        return exported.predict_examples(self.serialized)

    def carried(self, columns: Sequence[str] | None) -> dict[str, pa.Array]:
        """Returns columns of values, or of lists where an example has several; texts where bytes are such."""
        parsed = [self._parsed(one).features.feature for one in self.serialized]
        names = sorted({name for one in parsed for name in one}) if columns is None else columns
        return {name: _array(name, [one.get(name) for one in parsed]) for name in names}

    def _parsed(self, serialized: bytes) -> tf.train.Example:
        try:
            return tf.train.Example.FromString(serialized)
        except Exception:  # DecodeError of protobuf
            raise DataError(f"{self._path} has a record that is not a tf.train.Example.") from None


def _array(name: str, features: Sequence[Any]) -> pa.Array:
    """Returns a column of some examples' features, None for those that have none."""
    kinds = {"int64_list": pa.int64(), "float_list": pa.float32(), "bytes_list": pa.binary()}
    found: list[Any] = []
    types = set()
    for feature in features:
        kind = feature.WhichOneof("kind") if feature is not None else None
        found.append(list(getattr(feature, kind).value) if kind else None)
        if kind:
            types.add(kinds[kind])
    if len(types) > 1:
        raise DataError(f"{name} has values of several types: leave it out of --columns.")
    if not types:
        return pa.nulls(len(found))
    (kind,) = types
    if all(len(some) == 1 for some in found if some is not None):
        array = pa.array([some and some[0] for some in found], kind)
    else:
        array = pa.array(found, pa.list_(kind))
    try:
        return (
            array.cast(pa.string() if array.type == kind else pa.list_(pa.string())) if kind == pa.binary() else array
        )
    except pa.ArrowException:  # not UTF-8
        return array
