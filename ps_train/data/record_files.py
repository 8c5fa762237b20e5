"""Files of records as data, divided among the replicas: TFRecord files and text files.

    def data(self, split, data_dir):
        return ps_train.TFRecords(f"{data_dir}/{split}-*", parse)

    def parse(records):
        features = tf.io.parse_example(records, {"ids": tf.io.VarLenFeature(tf.int64), "click": ...})
        return features, features.pop("click")

`parse` gets many records at once, which is several times faster than one after the other.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.io import gfile

from ps_train.base.errors import DataError
from ps_train.config.paths import scheme_of
from ps_train.data.data_shard import DataShard
from ps_train.data.file_names import digest, files_like
from ps_train.data.stream import RandomAccessChunks, Stream, no_autograph
from ps_train.data.text_lines import LineRange, line_blocks, line_dataset

_CHUNK = 256
"""Records that are parsed together."""

_OPEN_FILES = 4
"""Files that are read at the same time for a random order."""


class TFRecords(Stream):
    """The records of TFRecord files.

    A replica reads files of its own.  With fewer files than replicas, each reads every n-th record of each file.  Under
    --sharding=dynamic a shard is one file, which a worker then has in memory.

    Args:
      files: one or several patterns of file names, on any file system of TensorFlow, as "data/train-*".
      parse: takes records, string [n], and returns (features, labels): nested tensors [n, ...], which may be ragged or
        sparse.
      compression: "GZIP", "ZLIB" or ""; None: "GZIP" for the names that end with ".gz".

    Raises:
      DataError: no file has such a name, or the compression is unknown.
    """

    def __init__(
        self, files: str | Sequence[str], parse: Callable[[tf.Tensor], Any], compression: str | None = None
    ) -> None:
        if compression not in (None, "", "GZIP", "ZLIB"):
            raise DataError(f"compression={compression!r} is not known: use GZIP, ZLIB, an empty text or None.")
        self._files, self._parse, self._compression = files_like(files), parse, compression
        self.description = f"{len(self._files)} files, {digest(map(os.path.basename, self._files))}"

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard."""
        has_own = shard.count <= len(self._files)
        files = self._files[shard.index :: shard.count] if has_own else self._files

        def records_of(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
            records = tf.data.TFRecordDataset(path, compression)
            return records if has_own else records.shard(shard.count, shard.index)

        paths = tf.data.Dataset.from_tensor_slices((files, list(map(self._compression_of, files))))
        if seed is None:
            records = paths.flat_map(no_autograph(records_of))
        else:
            paths = paths.shuffle(len(files), seed=seed)
            records = paths.interleave(no_autograph(records_of), _OPEN_FILES, num_parallel_calls=2, deterministic=True)
        return records.batch(_CHUNK).map(no_autograph(self._parse), num_parallel_calls=2)

    def pieces(self) -> RandomAccessChunks:
        """Returns the files, by index."""
        compressions = list(map(self._compression_of, self._files))

        def read(number: tf.Tensor) -> Any:
            records = tf.data.TFRecordDataset(tf.gather(self._files, number), tf.gather(compressions, number))
            first = tf.data.Dataset.from_tensors("")  # an empty file would make no batch
            return self._parse(first.concatenate(records).batch(np.iinfo(np.int64).max).get_single_element()[1:])

        sizes = [f"{os.path.basename(path)} {gfile.stat(path).length}" for path in self._files]
        return RandomAccessChunks(len(self._files), f"records_{digest(sizes)}", read)

    def _compression_of(self, path: str) -> str:
        if self._compression is None:
            return "GZIP" if path.endswith(".gz") else ""
        return self._compression


class TextLines(Stream):
    """The lines of text files on local disks, plain or gzipped; empty lines are left out.

    Replicas read equal parts of plain files, cut by bytes.  A file whose name ends with ".gz" can only be read from its
    beginning: a replica reads such files of its own, or every n-th line of each if there are fewer than replicas.

    Args:
      files: one or several patterns of file names, as "data/train-*.csv".
      parse: takes lines without their ends, string [n], and returns (features, labels), as in TFRecords.
      has_header: True leaves out the first line of each file.

    Raises:
      DataError: no file has such a name, or one is not on a local disk.
    """

    def __init__(self, files: str | Sequence[str], parse: Callable[[tf.Tensor], Any], has_header: bool = False) -> None:
        names = files_like(files)
        if remote := [name for name in names if scheme_of(name)]:
            raise DataError(f"{remote[0]} is not on a local disk: copy it, or use TFRecords.")
        self._files, self._parse, self._has_header = [pathlib.Path(name) for name in names], parse, has_header
        sizes = [path.stat().st_size for path in self._files]
        names_and_sizes = [f"{path.name} {size}" for path, size in zip(self._files, sizes, strict=True)]
        self.description = f"{len(names)} files, {sum(sizes)} bytes, {digest(names_and_sizes)}"

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard."""
        found = line_dataset(self._files, shard, seed).map(no_autograph(self._lines))
        found = found.filter(no_autograph(lambda lines: tf.size(lines) > 0))
        return found.map(no_autograph(self._parse), num_parallel_calls=2)

    def pieces(self) -> RandomAccessChunks | None:
        """Returns the blocks of plain files, by index; None if a file is gzipped."""
        found = line_blocks(self._files)
        if found is None:
            return None
        count, lines = found
        name = f"lines_{digest([self.description])}"
        return RandomAccessChunks(count, name, lambda number: self._parse(self._lines(lines(number))))

    def _lines(self, found: LineRange) -> tf.Tensor:
        lines = found.lines
        if self._has_header:
            lines = lines[tf.cast(tf.equal(found.first, 0), tf.int32) :]
        return tf.boolean_mask(lines, tf.not_equal(lines, ""))
