"""Each replica's lines of a list of text files, plain or gzipped, read many lines at a time.

A file is gzipped if its first bytes say so, whatever its name.  A byte order mark at its head is left out.

    lines = line_dataset(files, DataShard(index=0, count=2), seed=None)     # LineRange(file, first, step, lines)

Plain files are cut by bytes: joined end to end they form one sequence, and every replica reads an equal run of it.  A
line belongs to the run with its first byte, so the cut needs no search for line ends.  A gzipped file can only be read
from its beginning, so it belongs to one replica as a whole.  With fewer gzipped files than replicas, every replica
reads every n-th line of each.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ps_train.data.data_shard import WHOLE, DataShard, equal_runs
from ps_train.data.gzip_files import has_content, is_gzipped, unpacked
from ps_train.data.opened_files import errors_of, opened, size_of
from ps_train.data.stream import no_autograph, pipeline_error

BLOCK_BYTES = 1 << 18
"""Bytes of one read: enough to make the call's cost negligible, and few enough to shuffle blocks well."""


_MARK = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8.  Positions of lines in the first block of such a file count from after it."""


Path = str | os.PathLike[str]
"""Name of a file on any file system."""

_COUNTED_BYTES = 1 << 30
"""Lines are counted up to there, which takes a second or two."""


class LineRange(NamedTuple):
    """Lines of one file, without their line ends.

    Attributes:
      file: int64 scalar, index of the file.
      first: int64 scalar, byte offset of the first line; in a gzipped file the first line's number, counted from 0.
      step: int64 scalar, 0 in a plain file; in a gzipped file the difference between successive line numbers.
      lines: string [n].
    """

    file: Any
    first: Any
    step: Any
    lines: Any


@dataclasses.dataclass(frozen=True)
class Block:
    """The lines of a plain file whose first byte lies in `start <= byte < stop`.

    Attributes:
      file: index of the file.
      start: first byte.
      stop: byte after the last one.
    """

    file: int
    start: int
    stop: int


class Blocks(Sequence[Block]):
    """A shard's blocks of plain files, computed on access because a list would be long for long files."""

    def __init__(self, sizes: Sequence[int], shard: DataShard, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes
        self._runs = [Block(*run) for run in equal_runs(sizes, shard)]
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


def read_block(path: Path, start: int, stop: int) -> tuple[int, bytes]:
    r"""Returns the byte offset of a block's first line, and the block's lines, each ended by one \n.

    The lines are b"" if no line begins in the block.
    """
    with opened(path) as file:
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
    if not start:
        text = text.removeprefix(_MARK)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if text and not text.endswith(b"\n"):
        text = text.removesuffix(b"\r") + b"\n"
    return before, text


@dataclasses.dataclass(frozen=True)
class GzipShare:
    """Every `count`-th line of a gzipped file, beginning with line number `index`.

    Attributes:
      file: index of the file.
      index: number of the first line, counted from 0.
      count: difference between successive line numbers.
    """

    file: int
    index: int
    count: int


def gzip_shares(sizes: Sequence[int], shard: DataShard) -> list[GzipShare]:
    """Returns a shard's parts of gzipped files.

    If there are enough files for all replicas, the parts are whole files, assigned greedily with the largest first.
    """
    if len(sizes) < shard.count:
        return [GzipShare(file, shard.index, shard.count) for file in range(len(sizes))]
    bytes_assigned = [0] * shard.count
    own_files = []
    for file in sorted(range(len(sizes)), key=lambda file: (-sizes[file], file)):
        replica = bytes_assigned.index(min(bytes_assigned))
        bytes_assigned[replica] += max(1, sizes[file])
        if replica == shard.index:
            own_files.append(file)
    return [GzipShare(file, 0, 1) for file in sorted(own_files)]


def read_gzip(path: Path, index: int, count: int, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    r"""Yields every count-th line, beginning with line `index`: the first line's number, and lines each ended by \n."""
    before, rest = 0, b""
    with opened(path) as packed, gzip.open(packed) as file:
        mark = file.peek(len(_MARK)).startswith(_MARK)
        file.read(len(_MARK) if mark else 0)
        while text := file.read(block_bytes):
            whole, newline, rest = (rest + text).rpartition(b"\n")
            if newline:
                lines = whole.split(b"\n")
                yield from _every(lines, before, index, count)
                before += len(lines)
    if rest:
        yield from _every([rest], before, index, count)


def first_line(path: Path) -> bytes:
    """Returns the first line of a file without its end.

    Raises:
      DataError: the file cannot be read.
    """
    with unpacked(path) as file:
        return file.readline().removeprefix(_MARK).rstrip(b"\r\n")


def _every(lines: list[bytes], before: int, index: int, count: int) -> Iterator[tuple[int, bytes]]:
    skipped = (index - before) % count
    if selected := lines[skipped::count]:
        yield before + skipped, b"".join(line.removesuffix(b"\r") + b"\n" for line in selected)


def place_of_line(path: Path, first: int, step: int, index: int) -> str:
    """Returns the place of a line in words; the file is read up to `first`.

    Args:
      path: of the file.
      first: of the line's LineRange.
      step: of this range.
      index: of the line in that range.
    """
    if step:
        return f"{path} line {first + step * index + 1}"
    if first > _COUNTED_BYTES:
        return f"{path} line {index + 1} from byte {first} on"
    before, rest = 0, first
    with opened(path) as file:
        while rest and (text := file.read(min(rest, BLOCK_BYTES))):
            before, rest = before + text.count(b"\n"), rest - len(text)
    return f"{path} line {before + index + 1}"


def line_blocks(
    files: Sequence[Path], block_bytes: int = BLOCK_BYTES
) -> tuple[int, Callable[[tf.Tensor], LineRange]] | None:
    """Returns the number of blocks of plain files and a reader of one block; None if any file is gzipped."""
    if any(map(is_gzipped, files)):
        return None
    blocks = Blocks([size_of(path) for path in files], WHOLE, block_bytes)
    return len(blocks), _block_reader(files, range(len(files)), blocks)


def line_dataset(
    files: Sequence[Path], shard: DataShard, seed: tf.Tensor | None, block_bytes: int = BLOCK_BYTES
) -> tf.data.Dataset:
    """Returns the lines of a shard as LineRange elements.

    Args:
      files: the text files, plain or gzipped.
      shard: the part to read.
      seed: int64 scalar tensor: blocks and gzipped files come in a random order that differs between epochs; None: in
        the order of the files.
      block_bytes: bytes of one read.
    """
    sizes = [size_of(path) for path in files]
    gzipped: list[int] = []
    plain: list[int] = []
    for number, path in enumerate(files):
        if not is_gzipped(path):
            plain.append(number)
        elif has_content(path):  # no replica has an empty file as its only one
            gzipped.append(number)
    blocks = Blocks([sizes[number] for number in plain], shard, block_bytes)
    parts = gzip_shares([sizes[number] for number in gzipped], shard)
    from_plain = _plain_lines([files[number] for number in plain], plain, blocks, seed)
    from_gzip = _gzip_lines([files[number] for number in gzipped], gzipped, parts, seed, block_bytes)
    if not plain or not gzipped:
        return from_plain if plain else from_gzip
    return from_plain.concatenate(from_gzip)


_SIGNATURE = (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.string))


def _plain_lines(
    paths: Sequence[Path], numbers: Sequence[int], blocks: Blocks, seed: tf.Tensor | None
) -> tf.data.Dataset:
    reader = no_autograph(_block_reader(paths, numbers, blocks))
    return (
        _shuffled(len(blocks), seed).map(reader, num_parallel_calls=tf.data.AUTOTUNE).filter(no_autograph(_not_empty))
    )


def _block_reader(paths: Sequence[Path], numbers: Sequence[int], blocks: Blocks) -> Callable[[tf.Tensor], LineRange]:
    """Returns a reader of one block, in Python: TensorFlow's datasets cannot start in the middle of a file."""

    def read(index: Any) -> tuple[int, int, bytes]:
        block = blocks[int(index)]
        path = paths[block.file]
        try:
            return numbers[block.file], *read_block(path, block.start, block.stop)
        except errors_of(path) as error:
            raise _unreadable(path, error) from None

    def lines(index: tf.Tensor) -> LineRange:
        file, first, text = tf.numpy_function(read, [index], [tf.int64, tf.int64, tf.string], stateful=False)
        return _split(tf.ensure_shape(file, []), tf.ensure_shape(first, []), 0, tf.ensure_shape(text, []))

    return lines


def _gzip_lines(
    paths: Sequence[Path],
    numbers: Sequence[int],
    parts: Sequence[GzipShare],
    seed: tf.Tensor | None,
    block_bytes: int,
) -> tf.data.Dataset:
    """Returns the lines of gzipped files, read in Python: TensorFlow mistakes a truncated file for a complete one."""

    def read(number: Any) -> Iterator[tuple[int, bytes]]:
        part = parts[int(number)]
        path = paths[part.file]
        try:
            yield from read_gzip(path, part.index, part.count, block_bytes)
        except (*errors_of(path), EOFError, zlib.error) as error:  # type: ignore[misc]
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


def _unreadable(path: Path, error: Exception) -> Exception:
    return pipeline_error(f"{path} cannot be read: {str(error).rstrip('.')}.")
