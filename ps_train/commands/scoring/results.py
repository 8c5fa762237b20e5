"""Results of rows: the carried columns and the predictions, written in chunks that are put together at the end.

    results = results_for("out.parquet", "", ["user", "click"], ["probabilities"], of_examples=False)
    results.write("out.parquet.parts/00000.0000", [(rows, {"probabilities": array}), ...])
    results.join(["out.parquet.parts/00000.0000", ...], "out.parquet.parts/whole")

The file depends on the chunks and their order alone.
"""

from __future__ import annotations

import abc
import contextlib
import csv
import gzip
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.commands.scoring.formats import DELIMITERS, FORMATS, format_of_name
from ps_train.commands.scoring.rows import ExampleRows, Rows, cell_of
from ps_train.data.parquet.parquet_files import check_pyarrow
from ps_train.engine.serving.feature_values import Array

if TYPE_CHECKING:
    import pyarrow as pa

Scored = tuple[Rows, Mapping[str, Array]]
"""Rows and their predictions by name."""


class Results(abc.ABC):
    """A format of results.

    Args:
      kind: one of FORMATS.
      columns: names of the carried columns.
      outputs: names of the predictions.
      is_gzipped: True to compress the file.
      of_examples: True if the rows are `ExampleRows`.
    """

    def __init__(
        self, kind: str, columns: Sequence[str], outputs: Sequence[str], is_gzipped: bool, of_examples: bool
    ) -> None:
        self._kind, self._columns, self._outputs = kind, columns, outputs
        self._is_gzipped, self._of_examples = is_gzipped, of_examples

    @abc.abstractmethod
    def write(self, path: str, scored: Sequence[Scored]) -> None:
        """Writes a chunk into a file of its own."""

    def join(self, chunks: Sequence[str], path: str) -> None:
        """Writes the file of all chunks."""
        with self._opened(path) as file:
            file.write(self._head())
            for chunk in chunks:
                with open(chunk, "rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)

    def _head(self) -> bytes:
        """Returns what stands before the first chunk."""
        return b""

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[Any]:
        with open(path, "wb") as file:
            if not self._is_gzipped:
                yield file
                return
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                yield packed


def results_for(path: str, kind: str, columns: Sequence[str], outputs: Sequence[str], of_examples: bool) -> Results:
    """Returns the format of a file.

    Args:
      path: the file.
      kind: one of FORMATS; "": by the name of the file.
      columns: names of the carried columns.
      outputs: names of the predictions.
      of_examples: True if the rows are `ExampleRows`.

    Raises:
      ConfigError: the name does not tell, or a package is missing.
    """
    found = kind or format_of_name(path)
    if not found:
        raise ConfigError(f"to={path} has no format by its name: let it end with one of .{', .'.join(FORMATS)}.")
    is_gzipped = path.endswith(".gz")
    if found == "parquet":
        check_pyarrow()
        if is_gzipped:
            raise ConfigError(f"to={path}: Parquet files are compressed by themselves; leave .gz out.")
    kinds: dict[str, type[Results]] = {"parquet": _ParquetResults, "tfrecord": _RecordResults, "jsonl": _JsonResults}
    return kinds.get(found, _CellResults)(found, columns, outputs, is_gzipped, of_examples)


class _ParquetResults(Results):
    def write(self, path: str, scored: Sequence[Scored]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = []
        for rows, predictions in scored:
            table = rows.table(self._columns)
            for name, values in predictions.items():
                table = table.append_column(name, _arrow(values))
            tables.append(table.replace_schema_metadata(None))
        schema = _common_schema([table.schema for table in tables])
        pq.write_table(pa.concat_tables([table.cast(schema) for table in tables]), path)

    def join(self, chunks: Sequence[str], path: str) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        flat = self._columns_of_values(chunks) if self._of_examples else set()
        schema = _common_schema([_with_values(pq.read_schema(chunk), flat) for chunk in chunks])
        with pq.ParquetWriter(path, schema) as writer:
            for chunk in chunks:
                table = pq.read_table(chunk)
                for name in flat:
                    if not pa.types.is_null(table[name].type):
                        place = table.schema.get_field_index(name)
                        table = table.set_column(place, name, pc.list_element(table[name], 0))
                writer.write_table(table.cast(schema))

    def _columns_of_values(self, chunks: Sequence[str]) -> set[str]:
        """Returns the columns of lists, as examples have them, in which no row has more than one value."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        found = set(self._columns)
        for chunk in chunks:
            for name, column in zip(sorted(found), pq.read_table(chunk, columns=sorted(found)).columns, strict=True):
                if column.null_count < len(column) and pc.max(pc.list_value_length(column)).as_py() > 1:
                    found.remove(name)
        return found


def _with_values(schema: pa.Schema, flat: set[str]) -> pa.Schema:
    """Returns a schema with columns of values instead of lists."""
    import pyarrow as pa

    types = {field.name: field.type for field in schema}
    values = {name: types[name].value_type for name in flat if not pa.types.is_null(types[name])}
    return pa.schema([(name, values.get(name, kind)) for name, kind in types.items()])


def _common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Returns the schema to which all chunks can be cast; a column with texts in some chunks is one of texts."""
    import pyarrow as pa

    texts = {field.name for schema in schemas for field in schema if pa.types.is_string(field.type)}
    as_texts = [
        pa.schema([field.with_type(pa.string()) if field.name in texts else field for field in schema])
        for schema in schemas
    ]
    try:
        return pa.unify_schemas(as_texts, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"a column has values of several types ({error}): leave it out of --columns.") from None


def _arrow(values: Array) -> pa.Array:
    """Returns predictions as an Arrow array: texts, numbers, or lists of a fixed size."""
    import pyarrow as pa

    if values.ndim > 1:
        width = int(np.prod(values.shape[1:]))
        return pa.FixedSizeListArray.from_arrays(_arrow(values.reshape(-1)), width)
    if values.dtype == object:
        try:
            return pa.array([value.decode() for value in values], pa.string())
        except UnicodeDecodeError:
            return pa.array(list(values), pa.binary())
    if values.dtype.kind not in "biuf":  # bfloat16
        values = values.astype(np.float32)
    return pa.array(values)


class _RecordResults(Results):
    def write(self, path: str, scored: Sequence[Scored]) -> None:
        with tf.io.TFRecordWriter(path) as writer:
            for rows, predictions in scored:
                for number, example in enumerate(self._examples(rows)):
                    for name, values in predictions.items():
                        _set(example, name, np.ravel(values[number]).tolist())
                    writer.write(example.SerializeToString(deterministic=True))

    def _examples(self, rows: Rows) -> Iterator[tf.train.Example]:
        if isinstance(rows, ExampleRows):
            for example in rows.examples():
                for name in set(example.features.feature) - set(self._columns):
                    del example.features.feature[name]
                yield example
            return
        for record in rows.records(self._columns):
            example = tf.train.Example()
            for name, value in record.items():
                if value is not None:
                    _set(example, name, value if isinstance(value, list) else [value])
            yield example


def _set(example: tf.train.Example, name: str, values: list[Any]) -> None:
    feature = example.features.feature[name]
    feature.Clear()
    try:
        if all(isinstance(value, int) for value in values):  # also of no values, and bool
            feature.int64_list.value.extend(map(int, values))
        elif all(isinstance(value, int | float) for value in values):
            feature.float_list.value.extend(values)
        else:
            feature.bytes_list.value.extend(
                value if isinstance(value, bytes) else str(value).encode() for value in values
            )
    except ValueError as error:
        raise DataError(f"{name}={str(values)[:60]} does not fit into a tf.train.Example: {error}.") from None


class _JsonResults(Results):
    def write(self, path: str, scored: Sequence[Scored]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            for rows, predictions in scored:
                lists = {name: _plain(values) for name, values in predictions.items()}
                for number, record in enumerate(rows.records(self._columns)):
                    record |= {name: values[number] for name, values in lists.items()}
                    file.write(json.dumps(record, ensure_ascii=False, default=_as_json) + "\n")


class _CellResults(Results):
    def write(self, path: str, scored: Sequence[Scored]) -> None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = self._writer(file)
            for rows, predictions in scored:
                columns = [_plain(values) for values in predictions.values()]
                for number, cells in enumerate(rows.cells(self._columns)):
                    writer.writerow([*cells, *(cell_of(values[number]) for values in columns)])

    def _head(self) -> bytes:
        text = io.StringIO()
        self._writer(text).writerow([*self._columns, *self._outputs])
        return text.getvalue().encode()

    def _writer(self, file: Any) -> Any:
        return csv.writer(file, delimiter=DELIMITERS[self._kind], lineterminator="\n")


def _plain(values: Array) -> list[Any]:
    """Returns predictions as Python's values; float32 in as few digits as tell it from others."""
    if values.dtype == np.float32:
        return values.astype("U").astype(np.float64).tolist()
    if values.dtype.kind not in "biufO":  # bfloat16
        return values.astype(np.float32).tolist()
    return values.tolist()


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)  # times and decimals of Parquet
