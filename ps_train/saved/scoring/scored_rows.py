"""Results of rows: the carried columns and the predictions, written in chunks that are put together at the end.

    results = Results("parquet", ["probabilities"], is_gzipped=False, of_examples=False, of_json_texts=False)
    results.write("out.parquet.parts/00000.0000", [({"user": array}, {"probabilities": values}), ...])
    results.join(["out.parquet.parts/00000.0000", ...], "out.parquet.parts/whole")

A chunk is a file of Arrow.  The columns of the result are those of all chunks, each of one type, and values never
change for that: a column without a common type for its values is one of texts.  The result depends on the chunks and
their order alone.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.data.parquet.arrow import pa, pc, pq
from ps_train.saved.scoring.formats import DELIMITERS, FORMATS, format_of_name
from ps_train.saved.scoring.text_rows import LIST_SEPARATOR, json_of, text_of
from ps_train.saved.serving.feature_values import Array


def format_of_result(path: str, kind: str) -> str:
    """Returns the format of a result, one of FORMATS.

    Args:
      path: the file.
      kind: what was chosen; "": by the name of the file.

    Raises:
      ConfigError: the name does not tell, or the format has no compressed files.
    """
    found = kind or format_of_name(path)
    if not found:
        raise ConfigError(f"to={path} has no format by its name: let it end with one of .{', .'.join(FORMATS)}.")
    if found == "parquet" and path.endswith(".gz"):
        raise ConfigError(f"to={path}: Parquet files are compressed by themselves; leave .gz out.")
    return found


class _ChangedValuesError(Exception):
    """A column has values that its type does not have."""


class Results:
    """A result.

    Args:
      kind: one of FORMATS.
      outputs: names of the predictions.
      is_gzipped: True to compress the file.
      of_examples: True if rows are examples: a column with lists in some rows has lists in all.
      of_json_texts: True if the carried columns are texts of JSON.
    """

    def __init__(
        self, kind: str, outputs: Sequence[str], is_gzipped: bool, of_examples: bool, of_json_texts: bool
    ) -> None:
        self._kind, self._outputs, self._is_gzipped = kind, outputs, is_gzipped
        self._of_examples, self._of_json_texts = of_examples, of_json_texts

    def write(self, path: str, scored: Sequence[tuple[Mapping[str, pa.Array], Mapping[str, Array]]]) -> None:
        """Writes carried columns and predictions into a chunk."""
        tables = [
            pa.table({**carried, **{name: arrow_of(values) for name, values in predictions.items()}})
            for carried, predictions in scored
        ]
        types = self._types([table.schema for table in tables])
        while True:
            try:
                found = [self._in_types(table, types) for table in tables]
                break
            except _ChangedValuesError as error:
                types[str(error)] = pa.string()
        with pa.ipc.new_stream(path, found[0].schema) as writer:
            for table in found:
                writer.write_table(table)

    def join(self, chunks: Sequence[str], path: str) -> None:
        """Writes the file of all chunks."""
        types = self._types([table.schema for table in _tables(chunks)])
        while True:
            try:
                self._written(path, [*types], (self._in_types(table, types) for table in _tables(chunks)))
                return
            except _ChangedValuesError as error:
                types[str(error)] = pa.string()

    def _types(self, schemas: Sequence[pa.Schema]) -> dict[str, pa.DataType]:
        """Returns the type of each column, the carried ones first."""
        found: dict[str, pa.DataType] = {}
        for schema in schemas:
            for field in schema:
                found[field.name] = self._common(found.get(field.name, field.type), field.type)
        names = [name for name in found if name not in self._outputs]
        return {name: found[name] for name in [*(sorted(names) if self._of_examples else names), *self._outputs]}

    def _common(self, first: pa.DataType, second: pa.DataType) -> pa.DataType:
        if first == second:
            return first
        if self._of_examples and pa.types.is_list(first) != pa.types.is_list(second):
            values = [one.value_type if pa.types.is_list(one) else one for one in (first, second)]
            return pa.list_(self._common(*values))
        try:
            schemas = [pa.schema([("", kind)]) for kind in (first, second)]
            return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        except pa.ArrowException:
            return pa.string()

    def _in_types(self, table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
        arrays = []
        for name, kind in types.items():
            if name in table.column_names:
                arrays.append(self._in_type(name, table.column(name).combine_chunks(), kind))
            else:
                arrays.append(pa.nulls(table.num_rows, kind))
        return pa.table(arrays, pa.schema(list(types.items())))

    def _in_type(self, name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
        if array.type == kind:
            return array
        if pa.types.is_string(kind):
            return pa.array(map(text_of, array.to_pylist()), kind)
        if self._of_examples and pa.types.is_list(kind) and not pa.types.is_list(array.type):
            values = [None if one is None else [one] for one in array.to_pylist()]
            return pa.array(values, kind)
        try:
            return array.cast(kind)
        except pa.ArrowException:
            raise _ChangedValuesError(name) from None

    def _written(self, path: str, names: Sequence[str], tables: Iterator[pa.Table]) -> None:
        if self._kind == "parquet":
            _write_parquet(path, tables)
        elif self._kind == "tfrecord":
            _write_records(path, tables, "GZIP" if self._is_gzipped else "")
        else:
            with self._opened(path) as file:
                self._write_lines(file, names, tables)

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[Any]:
        with contextlib.ExitStack() as stack:
            file: Any = stack.enter_context(open(path, "wb"))
            if self._is_gzipped:
                file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
            yield stack.enter_context(io.TextIOWrapper(file, "utf-8", newline=""))

    def _write_lines(self, file: Any, names: Sequence[str], tables: Iterator[pa.Table]) -> None:
        if self._kind == "jsonl":
            keys = [json.dumps(name, ensure_ascii=False) for name in names]
            for table in tables:
                for row in zip(*map(self._json_texts, names, table.columns), strict=True):
                    file.write("{" + ", ".join(f"{key}: {text}" for key, text in zip(keys, row, strict=True)) + "}\n")
            return
        line = functools.partial(_line, self._kind)
        file.write(line(names))
        for table in tables:
            columns = [[_cell(one) for one in plain(column)] for column in table.columns]
            file.writelines(map(line, zip(*columns, strict=True)))

    def _json_texts(self, name: str, column: pa.ChunkedArray) -> list[str]:
        if self._of_json_texts and name not in self._outputs:
            return ["null" if text is None else text for text in column.to_pylist()]
        return [json_of(value) for value in plain(column)]


def _tables(chunks: Sequence[str]) -> Iterator[pa.Table]:
    for chunk in chunks:
        with pa.memory_map(chunk) as file, pa.ipc.open_stream(file) as reader:
            yield reader.read_all()


def arrow_of(values: Array) -> pa.Array:
    """Returns an array [n, ...] as Arrow: texts, numbers, or lists of a fixed size."""
    if values.ndim > 1:
        if not values.shape[-1]:
            return pa.array(values.tolist())
        found = arrow_of(values.reshape(-1))
        for size in reversed(values.shape[1:]):
            found = pa.FixedSizeListArray.from_arrays(found, size)
        return found
    if values.dtype == object:
        try:
            return pa.array([value.decode() for value in values], pa.string())
        except UnicodeDecodeError:
            return pa.array(list(values), pa.binary())
    if values.dtype.kind not in "biuf":  # bfloat16
        values = values.astype(np.float32)
    return pa.array(values)


def plain(array: Any) -> list[Any]:
    """Returns Python's values; float32 in as few digits as tell it from others, and bytes as texts."""
    kind = pa.types
    if kind.is_list(array.type) or kind.is_large_list(array.type) or kind.is_fixed_size_list(array.type):
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        values = iter(plain(array.flatten()))
        lengths = pc.list_value_length(array).to_pylist()
        return [None if length is None else [next(values) for _ in range(length)] for length in lengths]
    if kind.is_float32(array.type) or kind.is_float16(array.type):
        return array.cast(pa.float32()).cast(pa.string()).cast(pa.float64()).to_pylist()
    if kind.is_binary(array.type) or kind.is_large_binary(array.type) or kind.is_fixed_size_binary(array.type):
        return [text_of(value) for value in array.to_pylist()]
    return array.to_pylist()


def _cell(value: Any) -> str:
    """Returns a value as a cell of csv or tsv."""
    if value is None:
        return ""
    return LIST_SEPARATOR.join(map(_cell, value)) if isinstance(value, list) else str(value)


def _line(kind: str, cells: Sequence[str]) -> str:
    """Returns a line of csv or tsv, the same from every version of Python, whose `csv` differs at some characters."""
    if kind == "tsv":  # it has no quotes
        if any(set("\t\r\n") & set(cell) for cell in cells):
            raise DataError("a cell has a tab or a line end, which a tsv cannot have: use a result of another format.")
    else:
        cells = ['"' + cell.replace('"', '""') + '"' if set('",\r\n') & set(cell) else cell for cell in cells]
    return (DELIMITERS[kind].join(cells) or ('""' if kind == "csv" else "")) + "\n"


def _write_parquet(path: str, tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _write_records(path: str, tables: Iterator[pa.Table], compression: str) -> None:
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for table in tables:
            lists = [column.to_pylist() for column in table.columns]
            for row in zip(*lists, strict=True):
                example = tf.train.Example()
                for name, value in zip(table.column_names, row, strict=True):
                    if value is not None:
                        _set(example, name, _flat(value))
                writer.write(example.SerializeToString(deterministic=True))


def _flat(value: Any) -> list[Any]:
    return [inner for one in value for inner in _flat(one)] if isinstance(value, list) else [value]


def _set(example: tf.train.Example, name: str, values: list[Any]) -> None:
    feature = example.features.feature[name]
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
