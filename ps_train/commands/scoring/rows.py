"""Rows of files, for a model and for a result: Parquet, TFRecord files, and text with named columns.

    data = ParquetData(files, DataSpec(files), features, extra=["click"])
    for part in range(data.parts):
        for rows in data.read(part, 4096):
            rows.values()           # feature name to value, as `Exported.predict` takes them
            rows.table(columns)     # the carried columns, as Arrow
            rows.records(columns)   # the same as dicts of Python's values

A part is read alone, always in the same batches.  The parts in their order, and the rows in each, have the order of the
files.
"""

from __future__ import annotations

import abc
import csv
import dataclasses
import gzip
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.commands.scoring.formats import DELIMITERS
from ps_train.data.data_shard import DataShard
from ps_train.data.gzip_files import is_gzipped
from ps_train.data.opened_files import opened, size_of, told_as_data_error
from ps_train.data.parquet.columns import MissingValueError, column_of, is_text
from ps_train.data.parquet.footers import RowGroup, read_footers
from ps_train.data.parquet.parquet_files import check_pyarrow
from ps_train.data.parquet.reading import column_in, read_run
from ps_train.data.parquet.row_runs import limited_runs
from ps_train.data.record_files import TextLines, TFRecords
from ps_train.data.record_index import HEADER_BYTES, index_of, is_header
from ps_train.data.stream import Stream, data_error
from ps_train.engine.serving.exported import Exported
from ps_train.engine.serving.feature_values import Feature

if TYPE_CHECKING:
    import pyarrow as pa

LIST_SEPARATOR = "|"
"""Separates the elements of a list in a cell of csv and tsv."""

_PART_ROWS = 1 << 20
"""Most rows of a part of a Parquet file: its row groups are decoded from their beginnings."""

_PART_RECORDS, _PART_BYTES = 1 << 17, 32 << 20
"""Records of a part of a TFRecord file, bytes of a part of a text file."""


@dataclasses.dataclass(frozen=True)
class DataSpec:
    """The data of a command.

    Attributes:
      files: patterns of files, or directories.
      format: one of FORMATS; "": by the names of the files, or their first bytes.
      header: names of the columns of csv and tsv files without a first line that has them.
      defaults: column to the value that stands for missing ones.
      model: `package.module:Class` of a model whose `data` reads the files, below the one directory of `files`.
      model_arguments: of its constructor, as texts.
      split: of its data.
    """

    files: Sequence[str]
    format: str = ""
    header: Sequence[str] = ()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    model: str = ""
    model_arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    split: str = "test"


class Rows(abc.ABC):
    """A batch of rows."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def values(self) -> Mapping[str, Any]:
        """Returns name to value of the features that a model takes."""

    def predictions(self, exported: Exported) -> Mapping[str, Any]:
        """Returns output name to value, with a row for each row here."""
        return exported.predict(self.values())

    @abc.abstractmethod
    def records(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Returns a dict of Python's values for each row; None for missing values."""

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Returns the texts of each row for csv, "" for missing values."""
        return [[cell_of(one[name]) for name in columns] for one in self.records(columns)]

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Returns the columns as an Arrow table."""
        import pyarrow as pa

        records = self.records(columns)
        found = {}
        for name in columns:
            values = [one.get(name) for one in records]
            try:
                found[name] = pa.array(values)
            except pa.ArrowException:  # values of several types
                found[name] = pa.array([_text(value) for value in values])
        return pa.table(found)


def cell_of(value: Any) -> str:
    """Returns a value as a cell of csv or tsv."""
    if value is None:
        return ""
    if isinstance(value, list):
        return LIST_SEPARATOR.join(map(cell_of, value))
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class Data(abc.ABC):
    """The rows of some files.

    Attributes:
      files: the files.
      parts: number of parts.
      columns: names of all columns.
      of_examples: True if the rows are `ExampleRows`.
    """

    files: Sequence[str]
    parts: int
    columns: Sequence[str]
    of_examples = False

    @abc.abstractmethod
    def read(self, part: int, batch_size: int) -> Iterator[Rows]:
        """Yields the rows of a part, always in the same batches.

        Raises:
          DataError: a file is damaged or foreign.
        """

    def identity(self) -> list[list[Any]]:
        """Returns what tells these files from others: names, sizes, and times of their last changes."""
        found: list[list[Any]] = []
        for path in self.files:
            changed = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
            found.append([path, size_of(path), changed])
        return found


def check_columns(columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises DataError if a wanted column is not there."""
    if missing := [name for name in wanted if name not in columns]:
        shown = ", ".join(columns[:30]) + (", ..." if len(columns) > 30 else "")
        raise DataError(f"the files have no column {missing[0]!r}: they have {shown}.")


def _chunks(stream: Stream, shard: DataShard, batch_size: int) -> Iterator[Any]:
    """Yields the features of a stream whose labels stand for nothing."""
    try:
        for features, _ in stream.chunks(shard, None).rebatch(batch_size):
            yield features.numpy()
    except (tf.errors.OpError, ValueError) as error:
        raise data_error(error) or error from None


class _ParquetRows(Rows):
    def __init__(self, data: ParquetData, group: RowGroup, first: int, batch: pa.RecordBatch) -> None:
        self._data, self._group, self._first, self._batch = data, group, first, batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def _column(self, name: str) -> pa.Array:
        import pyarrow as pa

        constant = self._group.constants.get(name)
        return column_in(self._batch, name) if constant is None else pa.repeat(constant, len(self))

    def values(self) -> Mapping[str, Any]:
        import pyarrow as pa

        found = {}
        for name, column in self._data.of_model.items():
            try:
                found[name] = column.tensor([tf.constant(array) for array in column.arrays(self._column(name))])
            except MissingValueError as error:
                raise DataError(
                    f"{self._group.path} row {self._first + error.row}, counted from 0, has no value in column {name}: "
                    f"give one by --default={name}=VALUE."
                ) from None
            except pa.ArrowException as error:
                raise DataError(f"{self._group.path}, column {name}: {error}.") from None
        return found

    def table(self, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        found = {}
        for name in columns:
            column = self._column(name)
            found[name] = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return pa.table(found)

    def records(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        return self.table(columns).to_pylist()


class ParquetData(Data):
    """Rows of Parquet files; a part is a row group, or a run of its rows.

    Args:
      files: the files.
      spec: has the defaults.
      features: what a model takes of them.
      extra: further columns that must be there.
    """

    def __init__(
        self, files: Sequence[str], spec: DataSpec, features: Mapping[str, Feature], extra: Sequence[str]
    ) -> None:
        check_pyarrow()
        self.files = files
        footers = read_footers(files, None)
        self.columns = list(footers.fields)
        check_columns(self.columns, [*features, *extra, *spec.defaults])
        self.of_model = {name: column_of(name, footers.fields[name], spec.defaults.get(name)) for name in features}
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

    def examples(self) -> Iterator[tf.train.Example]:
        """Yields the examples."""
        for one in self.serialized:
            try:
                yield tf.train.Example.FromString(one)
            except Exception:  # DecodeError of protobuf
                raise DataError(f"{self._path} has a record that is not a tf.train.Example.") from None

    def records(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Returns a value where there is one, a list where there are several, None where there is none."""
        found = []
        for example in self.examples():
            record = {}
            for name in columns:
                values = list_of(example, name)
                record[name] = values[0] if len(values) == 1 else values or None
            found.append(record)
        return found

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Returns columns of lists; `results.py` makes values of those that have one everywhere."""
        import pyarrow as pa

        examples = list(self.examples())
        return pa.table({name: pa.array([list_of(one, name) or None for one in examples]) for name in columns})


def list_of(example: tf.train.Example, name: str) -> list[Any]:
    """Returns the values of a feature of an example; texts where its bytes are such."""
    feature = example.features.feature[name] if name in example.features.feature else tf.train.Feature()
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    return [_decoded(value) for value in values] if kind == "bytes_list" else values


def _decoded(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


class RecordData(Data):
    """Records of TFRecord files; a part is a run of records, or a compressed file.

    Args:
      files: the files.
    """

    of_examples = True

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files
        self._parts: list[tuple[str, DataShard]] = []
        for path in files:
            self._parts += [(path, shard) for shard in _shards_of_records(path)]
        self.parts = len(self._parts)
        names: dict[str, None] = {}
        for rows in self.read(0, 100):  # the names of the first records
            for example in rows.examples():
                names.update(dict.fromkeys(sorted(example.features.feature)))
            break
        self.columns = sorted(names)

    def read(self, part: int, batch_size: int) -> Iterator[ExampleRows]:
        """Yields the records of a part."""
        path, shard = self._parts[part]
        for serialized in _chunks(TFRecords(path, lambda records: (records, records)), shard, batch_size):
            yield ExampleRows(path, serialized)


def _shards_of_records(path: str) -> list[DataShard]:
    with told_as_data_error(path), opened(path) as file:
        plain = is_header(file.read(HEADER_BYTES)) and os.path.exists(path)
    count = max(1, -(-index_of(path).count // _PART_RECORDS)) if plain else 1
    return [DataShard(index, count) for index in range(count)]


class _LineRows(Rows):
    def __init__(self, data: LineData, path: str, records: list[dict[str, Any]]) -> None:
        self._data, self._path, self._records = data, path, records

    def __len__(self) -> int:
        return len(self._records)

    def values(self) -> Mapping[str, Any]:
        return {name: self._value(feature) for name, feature in self._data.features.items()}

    def _value(self, feature: Feature) -> Any:
        name, defaults = feature.name, self._data.defaults
        cells = [one.get(name) for one in self._records]
        if None in cells:
            if name not in defaults and feature.kind == "dense":
                raise DataError(
                    f"{self._path} has a row without a value of {name}: give one by --default={name}=VALUE."
                )
            cells = [defaults.get(name, []) if cell is None else cell for cell in cells]
        if self._data.is_json:
            return cells
        has_lists = feature.kind != "dense" or len(feature.row_shape or ()) > 0
        wanted = np.dtype(feature.dtype)
        if not has_lists:
            return self._converted(name, [str(cell) for cell in cells], wanted)
        lists = [str(cell).split(LIST_SEPARATOR) if cell not in ("", []) else [] for cell in cells]
        flat = self._converted(name, [one for some in lists for one in some], wanted)
        ends = np.cumsum([len(some) for some in lists])[:-1]
        return np.split(flat, ends)

    def _converted(self, name: str, texts: list[str], wanted: np.dtype[Any]) -> Any:
        if wanted.kind == "O":
            return np.array([text.encode() for text in texts], object)
        try:
            return np.array(texts, "U").astype(np.int64 if wanted.kind in "iub" else np.float64)
        except ValueError as error:
            raise DataError(f"{self._path}, column {name}: {error}: the model takes {wanted.name}.") from None

    def records(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        if self._data.is_json:
            return [{name: one.get(name) for name in columns} for one in self._records]
        return [{name: _number_or_text(one[name]) for name in columns} for one in self._records]

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        if self._data.is_json:
            return super().cells(columns)
        return [["" if one[name] is None else one[name] for name in columns] for one in self._records]


_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _number_or_text(cell: str | None) -> Any:
    if cell is None:
        return None
    if _INTEGER.fullmatch(cell):
        return int(cell)
    return float(cell) if _FLOAT.fullmatch(cell) else cell


def _text(value: Any) -> str | None:
    """Returns a value of a column with values of several types as text."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


class LineData(Data):
    """Lines of text files; a part is a run of bytes, or a gzipped file.

    Args:
      files: the files.
      kind: "csv", "tsv" or "jsonl".
      spec: has the header and the defaults.
      features: what a model takes of them.
      extra: further columns that must be there.
    """

    def __init__(
        self, files: Sequence[str], kind: str, spec: DataSpec, features: Mapping[str, Feature], extra: Sequence[str]
    ) -> None:
        self.files, self.is_json, self.features, self.defaults = files, kind == "jsonl", features, spec.defaults
        self._delimiter, self._has_header = DELIMITERS.get(kind, ","), not self.is_json and not spec.header
        if self.is_json and spec.header:
            raise ConfigError("--header is for csv and tsv: the lines of jsonl have the names.")
        if spec.header:
            self.columns = list(spec.header)
        else:
            self.columns = self._first_line(files[0])
            for path in [] if self.is_json else files[1:]:
                if (other := self._first_line(path)) != self.columns:
                    names = f"{', '.join(other[:10])} and not {', '.join(self.columns[:10])}"
                    raise DataError(f"{path} has the columns {names}, as {files[0]}: all files need the same columns.")
        if not self.is_json:
            check_columns(self.columns, [*features, *extra, *spec.defaults])
        self._parts: list[tuple[str, DataShard]] = []
        for path in files:
            count = 1 if is_gzipped(path) else max(1, -(-size_of(path) // _PART_BYTES))
            self._parts += [(path, DataShard(index, count)) for index in range(count)]
        self.parts = len(self._parts)

    def _first_line(self, path: str) -> list[str]:
        with told_as_data_error(path), opened(path) as packed:
            file: Any = gzip.GzipFile(fileobj=packed) if is_gzipped(path) else packed
            line = file.read(1 << 20).partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            raise DataError(f"{path} has no first line with the names of its columns: give them by --header.")
        if self.is_json:
            return list(self._parsed(path, [line])[0])
        return next(csv.reader([_utf8(path, line)], delimiter=self._delimiter))

    def read(self, part: int, batch_size: int) -> Iterator[Rows]:
        """Yields the lines of a part."""
        path, shard = self._parts[part]
        lines = TextLines(path, lambda lines: (lines, lines), has_header=self._has_header)
        for some in _chunks(lines, shard, batch_size):
            yield _LineRows(self, path, self._parsed(path, some))

    def _parsed(self, path: str, lines: Sequence[bytes]) -> list[dict[str, Any]]:
        if self.is_json:
            found = []
            for line in lines:
                try:
                    record = json.loads(line)
                except ValueError as error:
                    raise DataError(f"{path} has a line that is not JSON ({error}): {line[:60]!r}.") from None
                if not isinstance(record, dict):
                    raise DataError(f"{path} has a line that is not an object of JSON: {line[:60]!r}.")
                found.append(record)
            return found
        cells = csv.reader([_utf8(path, line) for line in lines], delimiter=self._delimiter)
        return [self._record(path, row) for row in cells]

    def _record(self, path: str, row: list[str]) -> dict[str, Any]:
        if len(row) != len(self.columns):
            raise DataError(f"{path} has a line of {len(row)} cells, not {len(self.columns)}: {str(row)[:80]}.")
        return {name: cell or None for name, cell in zip(self.columns, row, strict=True)}


def _utf8(path: str, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise DataError(f"{path} has a line that is not UTF-8: {line[:60]!r}.") from None
