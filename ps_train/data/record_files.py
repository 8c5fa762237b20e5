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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_train.base.errors import DataError, shown
from ps_train.base.remote_files import scheme_of
from ps_train.data.data_shard import DataShard, equal_runs
from ps_train.data.file_names import digest, files_like
from ps_train.data.gzip_files import GZIP_START, has_content
from ps_train.data.opened_files import forget_copy, local_copy, opened, size_of, told_as_data_error
from ps_train.data.record_check import check_all_read
from ps_train.data.record_index import FOOTER_BYTES, HEADER_BYTES, index_of, is_header
from ps_train.data.record_parser import RecordParser, Records
from ps_train.data.stream import RandomAccessChunks, Stream, no_autograph, pipeline_error
from ps_train.data.text_lines import LineRange, first_line, line_blocks, line_dataset, place_of_line

_CHUNK = 512
"""Records that are parsed together."""

_ALL = np.iinfo(np.int64).max

_OPEN_FILES = 4
"""Files, or parts of them, that are read at the same time for a random order."""

_CUTS = 16
"""Parts of a replica's records of one file, if the file has records of several replicas."""

_BUFFER_BYTES = 256 << 10
"""Bytes of one read, as in TFRecordDataset."""


class RecordRun(NamedTuple):
    """Some records of a file: `take` of them, all for -1, after `skip` ones from byte `offset` on.

    Attributes:
      file: index of the file.
      number: number of the first of these records in the file, counted from 0.
      step, start: of these records, every `step`-th one counts, from the one at `start` on.
    """

    file: int
    path: str
    compression: str
    offset: int = 0
    skip: int = 0
    take: int = -1
    number: int = 0
    step: int = 1
    start: int = 0


def _columns(parts: Sequence[RecordRun]) -> tuple[Any, ...]:
    """Returns an array [parts] of each field: strings, or int64."""
    return tuple(
        np.array([getattr(part, name) for part in parts], object if isinstance(default, str) else np.int64)
        for name, default in zip(RecordRun._fields, RecordRun(0, "", ""), strict=True)
    )


def _cuts(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yields the ends of up to _CUTS runs from `start` to `stop`, for a random order among them."""
    count = min(_CUTS, -(-(stop - start) // _CHUNK))
    for number in range(count):
        yield start + (stop - start) * number // count, start + (stop - start) * (number + 1) // count


def _records_of(part: RecordRun, has_selections: bool, chunk: int = _CHUNK) -> tf.data.Dataset:
    """Returns the records of a RecordRun of scalar tensors: elements `Records`, some of which may hold no record.

    The reader's errors are left out, because they name no file.  The last element checks that all has been read.

    Args:
      part: of one file.
      has_selections: False for whole files, to which every selection would add time for each record.
      chunk: most records in an element.
    """
    # A copy for TensorFlow is made when its turn has come, and removed after its last record.
    copy = tf.ensure_shape(tf.numpy_function(_copy_of, [part.path], tf.string), [])
    # TFRecordDataset cannot begin at an offset, and takes more time for each record.
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=copy,
        compression_type=part.compression,
        buffer_size=tf.constant(_BUFFER_BYTES, tf.int64),
        byte_offsets=part.offset,
    )
    records = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
    if has_selections:
        records = records.skip(part.skip).take(part.take)

    def counted(before: tf.Tensor, batch: tf.Tensor) -> Any:
        """Takes and returns the numbers of records and bytes so far, int64 [2]."""
        count = tf.size(batch)
        content = tf.reduce_sum(tf.cast(tf.strings.length(batch), tf.int64))
        frames = tf.cast(count, tf.int64) * tf.constant([1, HEADER_BYTES + FOOTER_BYTES], tf.int64)
        read = before + frames + tf.stack([0, content])
        arguments = [part.path, part.compression, part.offset, part.skip, part.take, read, copy]
        checked = tf.cond(
            tf.equal(count, 0), lambda: tf.numpy_function(_checked, arguments, tf.bool), lambda: tf.constant(True)
        )
        with tf.control_dependencies([checked]):
            index = tf.range(count)
        if has_selections:
            first = tf.minimum(tf.cast((part.start - before[0]) % part.step, tf.int32), count)
            index = tf.ensure_shape(index[first :: tf.cast(part.step, tf.int32)], [None])
            batch = tf.gather(batch, index)
        return read, Records(part.file, part.number + before[0], 1, index, batch)

    end = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
    batches = records.batch(chunk).ignore_errors().concatenate(end)
    return batches.scan(tf.zeros([2], tf.int64), no_autograph(counted))


def _copy_of(path: bytes) -> bytes:
    try:
        return local_copy(path.decode()).encode()
    except DataError as error:
        raise pipeline_error(str(error)) from None


def _checked(path: bytes, compression: bytes, offset: Any, skip: Any, take: Any, read: Any, copy: bytes) -> Any:
    try:
        check_all_read(path.decode(), compression.decode(), int(offset), int(skip), int(take), read, copy.decode())
    finally:
        forget_copy(copy.decode())
    return np.bool_(True)


def _is_gzipped(path: str) -> bool:
    """Returns True for a gzipped file.

    A plain file may begin with the same bytes as gzip's, if its first record has 559,903 bytes, but then a checksum
    follows.
    """
    with told_as_data_error(path), opened(path) as file:
        start = file.read(HEADER_BYTES)
    return start.startswith(GZIP_START) and not is_header(start)


class TFRecords(Stream):
    """The records of TFRecord files.

    A replica reads files of its own.  With fewer files than replicas, each reads an equal run of the records of all
    plain files on local disks (see `record_index.py`), and every n-th record of each other file.  Under
    --sharding=dynamic a shard is one file, which a worker then has in memory.

    Args:
      files: one or several patterns of file names, as "data/train-*", on any file system of TensorFlow or fsspec; of
        fsspec's a file is copied to the local disk while it is read.
      parse: takes records, string [n], and returns (features, labels): nested tensors [n, ...], which may be ragged or
        sparse.
      compression: "GZIP", "ZLIB" or ""; None: "GZIP" for files that begin as gzip's files do, whatever their names.

    Raises:
      DataError: no file has such a name, or the compression is unknown.
    """

    def __init__(
        self, files: str | Sequence[str], parse: Callable[[tf.Tensor], Any], compression: str | None = None
    ) -> None:
        if compression not in (None, "", "GZIP", "ZLIB"):
            raise DataError(f"compression={compression!r} is not known: use GZIP, ZLIB, an empty text or None.")
        self._files, self._compression = files_like(files), compression
        self._parser = RecordParser(parse, "record", self._place)
        self.bad_records = self._parser.bad
        self.description = f"{len(self._files)} files, {digest(map(os.path.basename, self._files))}"

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard."""
        parts = self._parts(shard)
        has_selections = any(part.take >= 0 or part.step > 1 for part in parts)

        def records(*columns: tf.Tensor) -> tf.data.Dataset:
            return _records_of(RecordRun(*columns), has_selections).filter(no_autograph(_not_empty))

        dataset = tf.data.Dataset.from_tensor_slices(_columns(parts))
        if seed is None:
            batches = dataset.flat_map(no_autograph(records))
        else:
            # Whole batches are interleaved, because interleaving single records takes a third of the reader's time.
            batches = dataset.shuffle(max(1, len(parts)), seed=seed).interleave(
                no_autograph(records), _OPEN_FILES, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
            )
        return batches.map(no_autograph(self._parser), num_parallel_calls=tf.data.AUTOTUNE)

    def _place(self, file: int, first: int, step: int, index: int) -> str:
        return f"{self._files[file]} record {first + step * index}"

    def _parts(self, shard: DataShard) -> list[RecordRun]:
        """Returns the parts of files that a replica reads, in the order of the data."""
        is_zlib = self._compression == "ZLIB"
        numbered = [(number, path) for number, path in enumerate(self._files) if has_content(path, is_zlib)]
        files = [RecordRun(number, path, self._compression_of(path)) for number, path in numbered]
        if shard.count <= len(files):
            return files[shard.index :: shard.count]
        indices = {
            file.path: index_of(file.path) for file in files if not file.compression and not scheme_of(file.path)
        }
        counts = [indices[file.path].count if file.path in indices else 0 for file in files]
        runs = {files[place].file: run for place, *run in equal_runs(counts, shard)}
        parts = []
        for file in files:
            index = indices.get(file.path)
            if index is None:
                parts.append(file._replace(step=shard.count, start=shard.index))
                continue
            for start, stop in _cuts(*runs.get(file.file, (0, 0))):
                place = index.place(start)
                parts.append(file._replace(offset=place.offset, skip=place.skip, take=stop - start, number=start))
        return parts

    def pieces(self) -> RandomAccessChunks:
        """Returns the files, by index."""
        columns = _columns(
            [RecordRun(number, path, self._compression_of(path)) for number, path in enumerate(self._files)]
        )

        def read(number: tf.Tensor) -> Any:
            part = tuple(tf.gather(column, number) for column in columns)
            # TensorFlow cannot serialize a dataset of a byte's offset, as `reduce` does, but for one in a function.
            batches = tf.data.Dataset.from_tensors(part).flat_map(
                no_autograph(lambda *values: _records_of(RecordRun(*values), has_selections=False, chunk=_ALL))
            )
            records = batches.reduce(
                tf.zeros([0], tf.string), no_autograph(lambda before, some: tf.concat([before, some.records], 0))
            )
            return self._parser(Records(number, tf.zeros([], tf.int64), 1, tf.range(tf.size(records)), records))

        sizes = [f"{os.path.basename(path)} {size_of(path)}" for path in self._files]
        return RandomAccessChunks(len(self._files), f"records_{digest(sizes)}", read)

    def _compression_of(self, path: str) -> str:
        if self._compression is None:
            return "GZIP" if _is_gzipped(path) else ""
        return self._compression


class TextLines(Stream):
    """The lines of text files, plain or gzipped; empty lines are left out.

    Replicas read equal parts of plain files, cut by bytes.  A gzipped file can only be read from its
    beginning: a replica reads such files of its own, or every n-th line of each if there are fewer than replicas.

    Args:
      files: one or several patterns of file names, on any file system of TensorFlow or fsspec, as "data/train-*.csv".
      parse: takes lines without their ends, string [n], and returns (features, labels), as in TFRecords.
      has_header: True leaves out the first line of each file, which must be the same one in all.

    Raises:
      DataError: no file has such a name, or two have other first lines.
    """

    def __init__(self, files: str | Sequence[str], parse: Callable[[tf.Tensor], Any], has_header: bool = False) -> None:
        self._files, self._has_header = files_like(files), has_header
        if has_header:
            _check_headers(self._files)
        self._parser = RecordParser(parse, "line", self._place)
        self.bad_records = self._parser.bad
        sizes = [size_of(path) for path in self._files]
        names_and_sizes = [f"{os.path.basename(path)} {size}" for path, size in zip(self._files, sizes, strict=True)]
        self.description = f"{len(self._files)} files, {sum(sizes)} bytes, {digest(names_and_sizes)}"

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Returns one epoch over a shard."""
        found = line_dataset(self._files, shard, seed)
        found = found.map(no_autograph(self._lines), num_parallel_calls=tf.data.AUTOTUNE).filter(
            no_autograph(_not_empty)
        )
        return found.map(no_autograph(self._parser), num_parallel_calls=tf.data.AUTOTUNE)

    def pieces(self) -> RandomAccessChunks | None:
        """Returns the blocks of plain files, by index; None if a file is gzipped."""
        found = line_blocks(self._files)
        if found is None:
            return None
        count, lines = found
        name = f"lines_{digest([self.description])}"
        return RandomAccessChunks(count, name, lambda number: self._parser(self._lines(lines(number))))

    def _place(self, file: int, first: int, step: int, index: int) -> str:
        return place_of_line(self._files[file], first, step, index)

    def _lines(self, found: LineRange) -> Records:
        """Returns the lines that are records."""
        index, lines = tf.range(tf.size(found.lines)), found.lines
        if self._has_header:
            header = tf.cast(tf.equal(found.first, 0), tf.int32)
            index, lines = index[header:], lines[header:]
        kept = tf.not_equal(lines, "")
        index, lines = tf.boolean_mask(index, kept), tf.boolean_mask(lines, kept)
        return Records(found.file, found.first, found.step, index, lines)


def _check_headers(files: Sequence[str]) -> None:
    first = ""
    header = b""
    for path in files:
        if not (line := first_line(path)):
            continue  # an empty file
        if header and line != header:
            raise DataError(
                f"{path} has the columns {shown(line)}, and {first} has {shown(header)}: give all files the same ones, "
                "in one order."
            )
        first, header = path, line


def _not_empty(some: Records) -> tf.Tensor:
    return tf.size(some.records) > 0
