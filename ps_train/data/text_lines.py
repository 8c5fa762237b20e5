"""Each replica's own lines of a list of text files, plain or gzipped, read many lines at a time.

    lines = line_dataset(files, Share(index=0, count=2), seed=None)     # elements: Lines(file, first, step, lines)

Plain files are divided by bytes: all of them, one after the other, are one row of bytes, of which every replica takes
an equal run.  A line belongs to where its first byte stands, so nobody has to know where lines begin before reading.
A gzipped file can be read from its beginning only: each is one replica's, or, where there are fewer of them than
replicas, every n-th line of each.
"""

from __future__ import annotations

import dataclasses
import gzip
import pathlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.stream import no_autograph, pipeline_error
from ps_train.errors import DataError

BLOCK_BYTES = 1 << 18
"""What is read at once: large enough that the call costs nothing, small enough that few blocks mix well."""


class LineRange(NamedTuple):
    """Lines of one file, without their ends.

    Attributes:
      file: int64 scalar, which of the files.
      first: int64 scalar, the byte at which the first line begins; in a gzipped file its number, counted from 0.
      step: int64 scalar, 0 for bytes; in a gzipped file how many lines on the next one stands.
      lines: string [n].
    """

    file: Any
    first: Any
    step: Any
    lines: Any


@dataclasses.dataclass(frozen=True)
class Block:
    """The lines of a plain file whose first byte is one of `start <= byte < stop`."""

    file: int
    start: int
    stop: int


class Blocks(Sequence[Block]):
    """A share of plain files in blocks, found by calculation: a list of them would be long for long files."""

    def __init__(self, sizes: Sequence[int], share: DataShard, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes
        self._runs = list(_runs(sizes, share))
        self._counts = [-(-(run.stop - run.start) // block_bytes) for run in self._runs]

    def __len__(self) -> int:
        return sum(self._counts)

    def __getitem__(self, index: Any) -> Any:
        for run, count in zip(self._runs, self._counts, strict=True):
            if index < count:
                start = run.start + index * self._block_bytes
                return Block(run.file, start, min(start + self._block_bytes, run.stop))
            index -= count
        raise IndexError(index)


def _runs(sizes: Sequence[int], share: DataShard) -> Iterator[Block]:
    total, before = sum(sizes), 0
    first, last = (total * index // share.count for index in (share.index, share.index + 1))
    for file, size in enumerate(sizes):
        start, stop = max(first - before, 0), min(last - before, size)
        if start < stop:
            yield Block(file, start, stop)
        before += size


def read_block(path: pathlib.Path, start: int, stop: int) -> tuple[int, bytes]:
    """Where the first of the block's lines begins, and the lines, each ended by one \\n; b"" where none begins."""
    with path.open("rb") as file:
        before = max(start - 1, 0)  # the byte before tells whether a line begins at `start`
        file.seek(before)
        text = file.read(stop - before)
        if start:
            begin = text.find(b"\n") + 1
            if not begin:
                return start, b""
            text, before = text[begin:], before + begin
        if text and not text.endswith(b"\n"):
            text += file.readline()
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if text and not text.endswith(b"\n"):
        text = text.removesuffix(b"\r") + b"\n"
    return before, text


@dataclasses.dataclass(frozen=True)
class GzipShare:
    """The lines number `index`, `index + count`, `index + 2 * count` and so on of a gzipped file."""

    file: int
    index: int
    count: int


def gzip_shares(sizes: Sequence[int], share: DataShard) -> list[GzipShare]:
    """A share of gzipped files: whole ones, the largest dealt out first, if there are enough for all replicas."""
    if len(sizes) < share.count:
        return [GzipShare(file, share.index, share.count) for file in range(len(sizes))]
    given = [0] * share.count
    mine = []
    for file in sorted(range(len(sizes)), key=lambda file: (-sizes[file], file)):
        replica = given.index(min(given))
        given[replica] += max(1, sizes[file])
        if replica == share.index:
            mine.append(file)
    return [GzipShare(file, 0, 1) for file in sorted(mine)]


def read_gzip(
    path: pathlib.Path, index: int, count: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, bytes]]:
    """Every count-th line, beginning with line `index`: the number of the first, and the lines, each ended by \\n."""
    before, rest = 0, b""
    with gzip.open(path) as file:
        while text := file.read(block_bytes):
            whole, newline, rest = (rest + text).rpartition(b"\n")
            if newline:
                lines = whole.split(b"\n")
                yield from _every(lines, before, index, count)
                before += len(lines)
    if rest:
        yield from _every([rest], before, index, count)


def _every(lines: list[bytes], before: int, index: int, count: int) -> Iterator[tuple[int, bytes]]:
    skipped = (index - before) % count
    if mine := lines[skipped::count]:
        yield before + skipped, b"".join(line.removesuffix(b"\r") + b"\n" for line in mine)


def line_blocks(
    files: Sequence[pathlib.Path], block_bytes: int = BLOCK_BYTES
) -> tuple[int, Callable[[tf.Tensor], LineRange]] | None:
    """How many blocks plain files have, and how to read one by its number; None where a file is gzipped."""
    if any(path.suffix == ".gz" for path in files):
        return None
    blocks = Blocks([_size_of(path) for path in files], WHOLE, block_bytes)
    return len(blocks), _block_reader(files, range(len(files)), blocks)


def line_dataset(
    files: Sequence[pathlib.Path], share: DataShard, seed: tf.Tensor | None, block_bytes: int = BLOCK_BYTES
) -> tf.data.Dataset:
    """`Lines` of a share.  With a seed, blocks and gzipped files come in a random order, another in each pass."""
    sizes = [_size_of(path) for path in files]
    plain = [number for number, path in enumerate(files) if path.suffix != ".gz"]
    zipped = [number for number, path in enumerate(files) if path.suffix == ".gz"]
    blocks = Blocks([sizes[number] for number in plain], share, block_bytes)
    parts = gzip_shares([sizes[number] for number in zipped], share)
    from_plain = _plain_lines([files[number] for number in plain], plain, blocks, seed)
    from_zipped = _zipped_lines([files[number] for number in zipped], zipped, parts, seed, block_bytes)
    if not plain or not zipped:
        return from_plain if plain else from_zipped
    return from_plain.concatenate(from_zipped)


_SIGNATURE = (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.string))


def _plain_lines(
    paths: Sequence[pathlib.Path], numbers: Sequence[int], blocks: Blocks, seed: tf.Tensor | None
) -> tf.data.Dataset:
    reader = no_autograph(_block_reader(paths, numbers, blocks))
    return _shuffled(len(blocks), seed).map(reader, num_parallel_calls=2).filter(no_autograph(_not_empty))


def _block_reader(
    paths: Sequence[pathlib.Path], numbers: Sequence[int], blocks: Blocks
) -> Callable[[tf.Tensor], LineRange]:
    """No stock dataset begins to read in the middle of a file without reading what is before: a line of Python does."""

    def read(index: Any) -> tuple[int, int, bytes]:
        block = blocks[int(index)]
        path = paths[block.file]
        try:
            return numbers[block.file], *read_block(path, block.start, block.stop)
        except OSError as error:
            raise _unreadable(path, error) from None

    def lines(index: tf.Tensor) -> LineRange:
        file, first, text = tf.numpy_function(read, [index], [tf.int64, tf.int64, tf.string], stateful=False)
        return _split(tf.ensure_shape(file, []), tf.ensure_shape(first, []), 0, tf.ensure_shape(text, []))

    return lines


def _zipped_lines(
    paths: Sequence[pathlib.Path],
    numbers: Sequence[int],
    parts: Sequence[GzipShare],
    seed: tf.Tensor | None,
    block_bytes: int,
) -> tf.data.Dataset:
    """In Python too: TensorFlow takes a file that was cut off for one that ended."""

    def read(number: Any) -> Iterator[tuple[int, bytes]]:
        part = parts[int(number)]
        path = paths[part.file]
        try:
            yield from read_gzip(path, part.index, part.count, block_bytes)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, error) from None

    files = tf.constant([numbers[part.file] for part in parts], tf.int64)
    steps = tf.constant([part.count for part in parts], tf.int64)

    def lines(number: tf.Tensor) -> tf.data.Dataset:
        texts = tf.data.Dataset.from_generator(read, args=[number], output_signature=_SIGNATURE)
        return texts.map(no_autograph(lambda first, text: _split(files[number], first, steps[number], text)))

    return _shuffled(len(parts), seed).flat_map(no_autograph(lines))


def _split(file: Any, first: Any, step: Any, text: tf.Tensor) -> LineRange:
    return LineRange(file, first, tf.cast(step, tf.int64), tf.strings.split(text, "\n")[:-1])


def _shuffled(count: int, seed: tf.Tensor | None) -> tf.data.Dataset:
    numbers = tf.data.Dataset.range(count)
    return numbers if seed is None or count < 2 else numbers.shuffle(count, seed=seed)


def _not_empty(lines: LineRange) -> tf.Tensor:
    return tf.size(lines.lines) > 0


def _size_of(path: pathlib.Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def _unreadable(path: pathlib.Path, error: Exception) -> Exception:
    return pipeline_error(f"{path} cannot be read: {str(error).rstrip('.')}.")
