"""Examples in TFRecord files, divided among the replicas.

    def data(self, split, data_dir):
        return ps_train.TFRecords(f"{data_dir}/{split}-*", parse)

    def parse(records):
        features = tf.io.parse_example(records, {"ids": tf.io.VarLenFeature(tf.int64), "click": ...})
        return features, features.pop("click")

`parse` gets many records at once, which is several times faster than one after the other.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.io import gfile

from ps_train.data.data_shard import DataShard
from ps_train.data.stream import RandomAccessChunks, Stream, no_autograph
from ps_train.errors import DataError

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
        patterns = [os.fspath(name) for name in ([files] if isinstance(files, str | os.PathLike) else files)]
        if compression not in (None, "", "GZIP", "ZLIB"):
            raise DataError(f"compression={compression!r} is not known: use GZIP, ZLIB, an empty text or None.")
        found = {path for pattern in patterns for path in gfile.glob(pattern) if not os.path.isdir(path)}
        if not found:
            raise DataError(f"no file has a name like {', '.join(patterns) or '(nothing)'}: check --data_dir.")
        self._files, self._parse, self._compression = sorted(found), parse, compression
        self.description = f"{len(found)} files, {_digest(map(os.path.basename, self._files))}"

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
        return RandomAccessChunks(len(self._files), f"records_{_digest(sizes)}", read)

    def _compression_of(self, path: str) -> str:
        if self._compression is None:
            return "GZIP" if path.endswith(".gz") else ""
        return self._compression


def _digest(texts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()
