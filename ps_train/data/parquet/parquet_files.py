"""Parquet files as data, divided among the replicas by rows.

def data(self, split, data_dir):
    return ps_train.Parquet(f"{data_dir}/{split}", columns=["user", "items", "price"], label="click")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError, nearest, one_line
from ps_train.base.extras import install
from ps_train.data.bad_records import BadRecords
from ps_train.data.data_shard import DataShard
from ps_train.data.file_names import digest, files_like
from ps_train.data.parquet.arrow import pa
from ps_train.data.parquet.columns import Column, MissingValueError, column_of, is_text
from ps_train.data.parquet.footers import RowGroup, read_footers
from ps_train.data.parquet.reading import column_in, read_run
from ps_train.data.parquet.row_runs import RowRun, limited_runs, runs_of_share
from ps_train.data.record_parser import RecordParser, Records
from ps_train.data.stream import RandomAccessChunks, Stream, no_autograph, pipeline_error

_OPEN_GROUPS = 4
"""Row groups that are read at the same time for a random order."""

_PIECE_BYTES = 256 << 20
"""Size before compression of the columns of a shard under dynamic sharding; a worker has it in memory."""

Parse = Callable[[dict[str, Any]], Any]


class Parquet(Stream):
    """The rows of Parquet files.  Needs pyarrow: `pip install '.[parquet]'` in a clone of ps_train.

    A column of numbers is a tensor [n], one of strings a string tensor [n], one of lists a ragged tensor [n, None] or
    [n, None, None], one of lists of a fixed size k a tensor [n, k]; `data/parquet/columns.py` lists all types.  The
    keys and values of a path, as `day=2026-01-01/hour=7`, are columns too.

    A replica reads as many rows as any other, in whole row groups but for the first and the last.  Under
    --sharding=dynamic a shard is a row group, or a part of a large one.

    Args:
      files: one or several patterns of files, as "data/train-*.parquet", or of directories, which are read with all
        below them; names that begin with "_" or "." are left out.
      columns: names of the features, `name.field` for a field of a struct; None for all columns but the label.  Only
        these and the label are read.
      label: name of the label, or names of several, which make a dict; None if `parse` makes the labels.
      parse: takes a dict of the columns and labels, each with n rows, and returns (features, labels): nested tensors
        [n, ...], which may be ragged or sparse.  None: the features are the dict without the labels.  Rows on which it
        fails are left out, and count for --max_bad_lines.
      defaults: name to value of columns that may have missing values.  In lists it stands for missing elements, and a
        missing list is empty.  Other rows with a missing value are left out, and count for --max_bad_lines.

    Raises:
      DataError: no file has such a name, a file is damaged or foreign, files differ in their columns, a column has no
        tensor, or a name is unknown.
      ConfigError: pyarrow is not installed.
    """

    def __init__(
        self,
        files: str | Sequence[str],
        columns: Sequence[str] | None = None,
        label: str | Sequence[str] | None = None,
        parse: Parse | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        check_pyarrow()

        labels = [] if label is None else [label] if isinstance(label, str) else list(label)
        if not labels and parse is None:
            raise DataError("Parquet(...) needs the name of the label, or a parse function that makes the labels.")
        if isinstance(columns, str):
            raise DataError(f"columns={columns!r} is a text: give a list of names.")
        names = None if columns is None else list(dict.fromkeys([*columns, *labels]))
        paths = files_like(files, below=True)
        footers = read_footers(paths, names)
        names = list(footers.fields) if names is None else names
        defaults = dict(defaults or {})
        for name in (*names, *labels, *defaults):
            _check_known(name, footers.fields)
        self._columns = {name: column_of(name, footers.fields[name], defaults.get(name)) for name in names}
        self._groups, self._label, self._parse = footers.groups, label, parse
        self._starts = np.cumsum([0, *(group.rows for group in self._groups)])
        self._parser = RecordParser(parse or self._labelled, "row", lambda _, __, ___, number: self._place(number))
        self.bad_records: BadRecords = self._parser.bad
        self._read = [name for name in names if name not in footers.constants]
        self._texts = [name for name in self._read if is_text(footers.fields[name])]
        sizes = [f"{os.path.basename(group.path)} {group.number} {group.rows}" for group in self._groups]
        self.description = f"{len(paths)} files, {sum(group.rows for group in self._groups)} rows, {digest(sizes)}"

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard."""
        runs = runs_of_share([group.rows for group in self._groups], shard)
        signature = tuple(tf.TensorSpec([None], dtype) for dtype in self._dtypes)

        def read(number: Any) -> Iterator[tuple[np.ndarray, ...]]:
            run = runs[int(number)]
            for first, rows in self._batches(run):
                yield tuple(self._arrays(run.group, first, rows))

        def chunks(number: tf.Tensor) -> tf.data.Dataset:
            return tf.data.Dataset.from_generator(read, args=[number], output_signature=signature)

        numbers = tf.data.Dataset.range(len(runs))
        if seed is None or len(runs) < 2:
            found = numbers.flat_map(no_autograph(chunks))
        else:
            found = numbers.shuffle(len(runs), seed=seed).interleave(
                no_autograph(chunks), _OPEN_GROUPS, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
            )
        return found.map(no_autograph(lambda *arrays: self._examples(arrays)), num_parallel_calls=tf.data.AUTOTUNE)

    def pieces(self) -> RandomAccessChunks:
        """Returns the row groups, or parts of large ones, by index."""
        rows = [group.rows for group in self._groups]
        most = [max(1, _PIECE_BYTES * group.rows // max(1, group.bytes)) for group in self._groups]
        runs = list(limited_runs(rows, most))

        def read(number: Any) -> list[np.ndarray]:
            run = runs[int(number)]
            whole = pa.Table.from_batches([rows for _, rows in self._batches(run)])
            return self._arrays(run.group, run.first, whole)

        def examples(number: tf.Tensor) -> Any:
            return self._examples(tf.numpy_function(read, [number], self._dtypes, stateful=False))

        return RandomAccessChunks(len(runs), f"rows_{digest([self.description])}", examples)

    @property
    def _dtypes(self) -> list[tf.DType]:
        return [tf.int64, *(dtype for column in self._columns.values() for dtype in column.dtypes)]

    def _batches(self, run: RowRun) -> Iterator[tuple[int, pa.RecordBatch]]:
        return read_run(self._groups[run.group], run, self._read, self._texts)

    def _arrays(self, group: int, first: int, rows: pa.RecordBatch | pa.Table) -> list[np.ndarray]:
        """Returns the arrays of all columns, without the rows in which a value is missing.

        The first array has the number of each row among those of all files.
        """
        numbers = np.arange(first, first + rows.num_rows) + self._starts[group]
        while True:
            arrays: list[np.ndarray] = [numbers]
            for name, column in self._columns.items():
                try:
                    arrays += self._arrays_of(self._groups[group], name, column, rows)
                except MissingValueError as error:
                    self._count_bad(int(numbers[error.row]), name)
                    is_kept = np.arange(len(numbers)) != error.row
                    break
            else:
                return arrays
            rows, numbers = rows.filter(pa.array(is_kept)), numbers[is_kept]

    def _arrays_of(self, group: RowGroup, name: str, column: Column, rows: Any) -> list[np.ndarray]:
        constant = group.constants.get(name)
        array = column_in(rows, name) if constant is None else pa.repeat(constant, rows.num_rows)
        try:
            return column.arrays(array)
        except pa.ArrowException as error:
            raise pipeline_error(f"{group.path}, column {name}: {one_line(error)}.") from None

    def _count_bad(self, number: int, name: str) -> None:
        """Counts a row with a missing value; raises the pipeline's error if there are too many."""
        words = f"no value in column {name}, and Parquet(..., defaults={{{name!r}: ...}}) gives none"
        if message := self.bad_records.add((0, 0, number), lambda: f"{self._place(number)}: {words}"):
            raise pipeline_error(message)

    def _place(self, number: int) -> str:
        """Returns the place of a row in words, from its number among those of all files."""
        index = int(np.searchsorted(self._starts, number, side="right")) - 1
        group, row = self._groups[index], number - int(self._starts[index])
        return f"{group.path} row {group.first_row + row} (row group {group.number}, row {row} in it), counted from 0"

    def _examples(self, arrays: Sequence[tf.Tensor]) -> Any:
        """Returns (features, labels) of some rows."""
        values, (numbers, *rest) = {}, list(arrays)
        for name, column in self._columns.items():
            own, rest = rest[: len(column.dtypes)], rest[len(column.dtypes) :]
            values[name] = column.tensor(own)
        if self._parse is None:
            return self._labelled(values)
        zero = tf.zeros([], tf.int64)
        return self._parser(Records(zero, zero, 1, tf.ensure_shape(numbers, [None]), values))

    def _labelled(self, values: dict[str, Any]) -> Any:
        """Returns (features, labels) without a function of the user."""
        if isinstance(self._label, str):
            return values, values.pop(self._label)
        return values, {name: values.pop(name) for name in self._label or ()}


def _check_known(name: str, fields: Mapping[str, Any]) -> None:
    if name not in fields:
        hint = nearest(name, fields, " (did you mean {}?)")
        shown = ", ".join(list(fields)[:30]) + (", ..." if len(fields) > 30 else "")
        raise DataError(f"the files have no column {name!r}{hint}: they have {shown}.")


def check_pyarrow() -> None:
    """Raises ConfigError if pyarrow cannot be imported."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"Parquet files need pyarrow: {install('parquet')} ({error}).") from None
