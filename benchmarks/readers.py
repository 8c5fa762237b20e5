"""The readers of `benchmarks input`: the same rows as each kind of data, and plain tf.data that reads them alike.

    reader = READERS["TFRecords"]
    reader.write(directory, rows_of(60_000))
    reader.ours(directory)      # what a model's data() returns
    reader.plain(directory)     # a dataset of single examples or lines, and the function that parses a batch of these

A row is a click of Criteo's width: a label, 13 integers and 26 categories.  A new format is one more entry of READERS.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

import ps_train
from ps_train.data import Stream
from ps_train.data.criteo.files import SplitFiles, SplitPart
from ps_train.data.criteo.format import CATEGORIES, INTEGERS
from ps_train.data.criteo.reader import Criteo
from ps_train.data.criteo.reader import parse as parse_criteo
from ps_train.data.parquet.reading import CHUNK_ROWS

if TYPE_CHECKING:
    from ps_train.data.data_shard import DataShard

FILES = 4
_COLUMNS = 1 + INTEGERS + CATEGORIES
_plain = tf.autograph.experimental.do_not_convert


class Rows(NamedTuple):
    """Clicks: labels int64 [n], integers int64 [n, 13], categories int64 [n, 26]."""

    labels: Any
    integers: Any
    categories: Any

    def parts(self) -> Iterator[tuple[int, Rows]]:
        """Yields the rows of each file with its number."""
        for number in range(FILES):
            yield number, Rows(*(column[number::FILES] for column in self))


def rows_of(count: int) -> Rows:
    random = np.random.default_rng(1)
    labels = np.arange(count) % 2
    integers = random.lognormal(2, 2, (count, INTEGERS)).astype(np.int64) + 1
    return Rows(labels, integers, random.integers(1, 1 << 32, (count, CATEGORIES)))


class Plain(NamedTuple):
    """Plain tf.data: `examples` are shuffled and batched, and `parse` takes each batch; None: they need no parsing."""

    examples: tf.data.Dataset
    parse: Callable[..., Any] | None


@dataclasses.dataclass(frozen=True)
class Reader:
    """One kind of data.

    Attributes:
      write: puts rows into a directory.
      ours: what a model's `data` returns for it.
      plain: the same rows in tf.data.
      by_hand: in the place of `plain`, yields numbers of rows without end, read without TensorFlow.
    """

    write: Callable[[pathlib.Path, Rows], None]
    ours: Callable[[pathlib.Path], Any]
    plain: Callable[[pathlib.Path], Plain]
    by_hand: Callable[[pathlib.Path, int, int], Iterator[int]] | None = None


def _files(directory: pathlib.Path) -> list[str]:
    return sorted(map(str, directory.iterdir()))


def _examples(rows: Rows) -> tuple[dict[str, Any], Any]:
    features = {"integers": rows.integers.astype(np.float32), "categories": rows.categories}
    return features, rows.labels.astype(np.float32)


def _split_columns(columns: Any) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Returns features and labels of int64 [n, 40]."""
    integers = tf.cast(columns[:, 1 : 1 + INTEGERS], tf.float32)
    return {"integers": integers, "categories": columns[:, 1 + INTEGERS :]}, tf.cast(columns[:, 0], tf.float32)


def _write_arrays(directory: pathlib.Path, rows: Rows) -> None:
    np.savez(directory / "rows.npz", **rows._asdict())


def _arrays(directory: pathlib.Path) -> tuple[dict[str, Any], Any]:
    with np.load(directory / "rows.npz") as held:
        return _examples(Rows(**held))


def _single_examples(directory: pathlib.Path) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(_arrays(directory))


def _write_csv(directory: pathlib.Path, rows: Rows) -> None:
    for number, part in rows.parts():
        whole = np.column_stack(part)
        (directory / f"rows-{number}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in whole.tolist()))


def _parse_csv(lines: tf.Tensor) -> Any:
    columns = tf.io.decode_csv(lines, [[0.0]] * (1 + INTEGERS) + [tf.zeros([1], tf.int64)] * CATEGORIES)
    features = {"integers": tf.stack(columns[1 : 1 + INTEGERS], 1), "categories": tf.stack(columns[1 + INTEGERS :], 1)}
    return features, columns[0]


def _write_records(directory: pathlib.Path, rows: Rows) -> None:
    for number, part in rows.parts():
        with tf.io.TFRecordWriter(str(directory / f"rows-{number}")) as writer:
            for label, integers, categories in zip(*part, strict=True):
                features = tf.train.Features()
                features.feature["label"].float_list.value.append(label)
                features.feature["integers"].float_list.value.extend(integers)
                features.feature["categories"].int64_list.value.extend(categories)
                writer.write(tf.train.Example(features=features).SerializeToString())


def _parse_records(records: tf.Tensor) -> Any:
    spec = {
        "integers": tf.io.FixedLenFeature([INTEGERS], tf.float32),
        "categories": tf.io.FixedLenFeature([CATEGORIES], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.float32),
    }
    features = tf.io.parse_example(records, spec)
    return features, features.pop("label")


def _write_criteo(directory: pathlib.Path, rows: Rows) -> None:
    for number, part in rows.parts():
        lines = (
            "\t".join([str(label), *map(str, integers), *(f"{category:08x}" for category in categories)]) + "\n"
            for label, integers, categories in zip(*(column.tolist() for column in part), strict=True)
        )
        (directory / f"rows-{number}.txt").write_text("".join(lines))


def _criteo(directory: pathlib.Path) -> Criteo:
    return Criteo(SplitFiles(tuple(map(pathlib.Path, _files(directory))), SplitPart.ALL))


def _write_binary(directory: pathlib.Path, rows: Rows) -> None:
    for number, part in rows.parts():
        np.column_stack(part).astype("<i8").tofile(directory / f"rows-{number}")


def _parse_binary(records: tf.Tensor) -> Any:
    return _split_columns(tf.io.decode_raw(records, tf.int64, fixed_length=8 * _COLUMNS))


class Blocks(Stream):
    """Files of rows of 40 int64, a multiple of `rows` in each; a Stream as a user would write it."""

    def __init__(self, files: Sequence[str], rows: int) -> None:
        self._files, self._rows = list(files), rows

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        files = self._files[shard.index :: shard.count]
        paths = tf.data.Dataset.from_tensor_slices(files)
        if seed is not None:
            paths = paths.shuffle(len(files), seed=seed)
        return paths.flat_map(_plain(self._blocks))

    def _blocks(self, path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.FixedLengthRecordDataset(path, 8 * _COLUMNS * self._rows)
        return records.map(
            _plain(lambda block: _split_columns(tf.reshape(tf.io.decode_raw(block, tf.int64), [-1, _COLUMNS])))
        )


_FLOATS = [f"i{number}" for number in range(INTEGERS)]
_INTEGERS = [f"c{number}" for number in range(CATEGORIES)]


def _write_parquet(directory: pathlib.Path, rows: Rows) -> None:
    """Writes 14 floats and 26 integers a row, as a warehouse does: a column each, zstd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, part in rows.parts():
        columns = [part.labels.astype(np.float32), *part.integers.T.astype(np.float32), *part.categories.T]
        table = pa.table(columns, names=["label", *_FLOATS, *_INTEGERS])
        pq.write_table(table, directory / f"rows-{number}.parquet", compression="zstd")


def _parse_columns(columns: dict[str, tf.Tensor]) -> Any:
    integers = tf.stack([columns[name] for name in _FLOATS], 1)
    return {"integers": integers, "categories": tf.stack([columns[name] for name in _INTEGERS], 1)}, columns["label"]


def _read_parquet(directory: pathlib.Path) -> Iterator[list[np.ndarray]]:
    """Yields integers, categories and labels of many rows at once, read by pyarrow."""
    import pyarrow.parquet as pq

    for path in _files(directory):
        for batch in pq.ParquetFile(path).iter_batches(use_threads=False):
            columns = [np.stack([batch.column(name).to_numpy() for name in names], 1) for names in (_FLOATS, _INTEGERS)]
            yield [*columns, batch.column("label").to_numpy()]


def _parquet_columns(directory: pathlib.Path, batch: int, shuffled: int) -> Iterator[int]:
    """Reads as many rows at once as ps_train does, and makes an array of each column; neither batches nor shuffles."""
    import pyarrow.parquet as pq

    while True:
        for path in _files(directory):
            for rows in pq.ParquetFile(path).iter_batches(CHUNK_ROWS, use_threads=False):
                yield max(len(column.to_numpy()) for column in rows.columns)


def _plain_parquet(directory: pathlib.Path) -> Plain:
    specs: Any = ([INTEGERS], tf.float32), ([CATEGORIES], tf.int64), ([], tf.float32)
    signature = tuple(tf.TensorSpec([None, *shape], dtype) for shape, dtype in specs)
    chunks = tf.data.Dataset.from_generator(lambda: map(tuple, _read_parquet(directory)), output_signature=signature)
    return Plain(chunks.unbatch(), _labelled)


def _labelled(integers: tf.Tensor, categories: tf.Tensor, labels: tf.Tensor) -> Any:
    return {"integers": integers, "categories": categories}, labels


def _parquet_by_hand(directory: pathlib.Path, batch: int, shuffled: int) -> Iterator[int]:
    """Shuffles pools of rows with numpy."""
    random, rest = np.random.default_rng(1), [np.zeros([0, INTEGERS]), np.zeros([0, CATEGORIES]), np.zeros(0)]
    while True:
        for found in _read_parquet(directory):
            rest = [np.concatenate(pair) for pair in zip(rest, found, strict=True)]
            if len(rest[2]) < shuffled:
                continue
            order = random.permutation(len(rest[2]))
            rest = [column[order] for column in rest]
            whole = len(order) // batch
            for number in range(whole):
                yield len([column[number * batch : (number + 1) * batch].copy() for column in rest][2])
            rest = [column[whole * batch :] for column in rest]


READERS = {
    "Arrays": Reader(
        _write_arrays,
        lambda directory: ps_train.Arrays(*_arrays(directory)),
        lambda directory: Plain(_single_examples(directory), None),
    ),
    "tf.data.Dataset": Reader(
        _write_arrays,
        _single_examples,
        lambda directory: Plain(_single_examples(directory), None),
    ),
    "TextLines": Reader(
        _write_csv,
        lambda directory: ps_train.TextLines(f"{directory}/*", _parse_csv),
        lambda directory: Plain(tf.data.TextLineDataset(_files(directory)), _parse_csv),
    ),
    "TFRecords": Reader(
        _write_records,
        lambda directory: ps_train.TFRecords(f"{directory}/*", _parse_records),
        lambda directory: Plain(tf.data.TFRecordDataset(_files(directory)), _parse_records),
    ),
    "Criteo": Reader(
        _write_criteo,
        _criteo,
        lambda directory: Plain(tf.data.TextLineDataset(_files(directory)), parse_criteo),
    ),
    "Parquet": Reader(
        _write_parquet,
        lambda directory: ps_train.Parquet(f"{directory}/*", parse=_parse_columns),
        _plain_parquet,
    ),
    "Parquet, by hand": Reader(
        _write_parquet,
        lambda directory: ps_train.Parquet(f"{directory}/*", parse=_parse_columns),
        _plain_parquet,
        _parquet_by_hand,
    ),
    "Parquet, columns alone": Reader(
        _write_parquet,
        lambda directory: ps_train.Parquet(f"{directory}/*", parse=_parse_columns),
        _plain_parquet,
        _parquet_columns,
    ),
    "Stream": Reader(
        _write_binary,
        lambda directory: Blocks(_files(directory), 500),
        lambda directory: Plain(tf.data.FixedLengthRecordDataset(_files(directory), 8 * _COLUMNS), _parse_binary),
    ),
}
