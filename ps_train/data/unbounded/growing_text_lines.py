"""Text files that appear in a directory while a job runs, as data without an end.

    def data(self, split, data_dir):
        return ps_train.GrowingTextLines(f"{data_dir}/clicks-*.csv", parse)

Files are taken in the order of their names, in turn by the partitions: file i belongs to partition i mod n.  An offset
is one number: the index of the file among those of its partition, a fingerprint of its name, and the byte in its
content.  The fingerprint tells if files before it have gone, or others have come: the offset would mean another row.
"""

from __future__ import annotations

import gzip
import os
import pathlib
import zlib
from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple

from tensorflow.io import gfile

from ps_train.base.errors import DataError
from ps_train.base.remote_files import scheme_of
from ps_train.data.file_names import files_like, literal_start
from ps_train.data.gzip_files import is_gzipped
from ps_train.data.unbounded.source import Row, UnboundedSource

_BYTE_BITS, _NAME_BITS = 34, 12
"""Bits of an offset for the byte in a file, and for the fingerprint of its name; the rest is the file's index."""

_MOST_FILES = 1 << 16
_MARK = b"\xef\xbb\xbf"


class Position(NamedTuple):
    """A place in the files of a partition.

    Attributes:
      file: index of the file among those of its partition.
      mark: fingerprint of its name.
      byte: place in its content.
    """

    file: int
    mark: int
    byte: int

    @classmethod
    def of(cls, offset: int) -> Position:
        """Returns the place that an offset stands for."""
        rest, byte = divmod(offset, 1 << _BYTE_BITS)
        return cls(rest >> _NAME_BITS, rest % (1 << _NAME_BITS), byte)

    @property
    def offset(self) -> int:
        """The offset that stands for the place."""
        return ((self.file << _NAME_BITS) + self.mark << _BYTE_BITS) + self.byte


class GrowingTextLines(UnboundedSource):
    """The lines of text files that appear while the job runs, plain or gzipped; empty lines are left out.

    A file must be complete when it gets a name that matches: write it under another name, and rename it.  New files
    need names that sort after all others, as names with a time do.  Files that have been read must stay, with the same
    content, as long as the job may be resumed.

    Args:
      files: one or several patterns of file names, as "data/clicks-*.csv"; there may be no file yet.
      parse: takes lines without their ends, string [n], and returns (features, labels), as in TextLines.
      has_header: True leaves out the first line of each file.
      partitions: number of partitions, so many files are read at the same time, by as many workers at most.  A job
        can only be resumed with the same number.

    Raises:
      DataError: a pattern is not of a local disk.
    """

    def __init__(
        self,
        files: str | Sequence[str],
        parse: Callable[[Any], Any],
        has_header: bool = False,
        partitions: int = 8,
    ) -> None:
        super().__init__(f"files_by_{partitions}", parse)
        self.lag_unit = "bytes"
        self._patterns = [os.fspath(name) for name in ([files] if isinstance(files, str | os.PathLike) else files)]
        if remote := [name for name in self._patterns if scheme_of(name)]:
            raise DataError(f"{remote[0]} is not on a local disk: mount its file system.")
        if not 1 <= partitions <= self.most_partitions:
            raise DataError(f"partitions={partitions} is not valid: use 1 to {self.most_partitions}.")
        self._partitions, self._has_header = partitions, has_header
        self._files: list[str] = []
        self._open: dict[int, tuple[Position, IO[bytes]]] = {}

    def partitions(self) -> int:
        """Returns the number of partitions; looks for new files."""
        found = self._find()
        if found[: len(self._files)] != self._files:
            changed = next(name for name in (*found, *self._files) if (name in found) != (name in self._files))
            how = "has come between files that were there" if changed in found else "is gone"
            raise DataError(f"{changed} {how}: only add files, with names that sort after all others.")
        if len(found) >= _MOST_FILES * self._partitions:
            raise DataError(f"{self._shown()} are {len(found)} files, too many for {self._partitions} partitions.")
        self._files = found
        return self._partitions

    def read(self, partition: int, offset: int, n: int) -> list[Row]:
        """Returns the next lines; None stands for an empty line, and for a header."""
        position = Position.of(offset)
        files = self._files[partition :: self._partitions]
        if position.file < len(files) and not offset:
            position = _begin(0, files[0])
        rows: list[Row] = []
        while position.file < len(files) and len(rows) < n:
            path = files[position.file]
            if position.mark != _mark(path):
                raise DataError(
                    f"{path} is not the file that was read before at its place in the order of names: files must "
                    "stay, and new ones need names that sort after all others; or use another --model_dir."
                )
            position = self._read_file(partition, path, position, rows, n)
            if len(rows) < n:  # the file's end
                if position.file + 1 == len(files):
                    break
                position = _begin(position.file + 1, files[position.file + 1])
                self.release(partition)
        return rows

    def lag(self, partition: int, offset: int) -> float | None:
        """Returns the bytes from a place on; a gzipped file counts whole until it is read."""
        position = Position.of(offset)
        paths = self._files[partition :: self._partitions][position.file :]
        left = sum(os.path.getsize(path) for path in paths)
        begun = position.byte if paths and not is_gzipped(pathlib.Path(paths[0])) else 0
        return float(max(0, left - begun))

    def place(self, partition: int, offset: int) -> str:
        """Returns the file and the byte of a line."""
        position = Position.of(offset)
        path = self._files[partition :: self._partitions][position.file]
        return f"{path} byte {position.byte}"

    def release(self, partition: int) -> None:
        """Closes the open file."""
        if partition in self._open:
            self._open.pop(partition)[1].close()

    def close(self) -> None:
        """Closes all files."""
        for partition in list(self._open):
            self.release(partition)

    def _read_file(self, partition: int, path: str, position: Position, rows: list[Row], n: int) -> Position:
        """Adds lines of one file until there are n rows; returns the place after them."""
        try:
            file = self._opened(partition, path, position)
            while len(rows) < n and (line := file.readline()):
                begin, position = position, position._replace(byte=position.byte + len(line))
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                if not begin.byte:
                    text = text.removeprefix(_MARK)
                is_header = self._has_header and not begin.byte
                rows.append(Row(None if is_header or not text else text, begin.offset, position.offset))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path} cannot be read: {str(error).rstrip('.')}.") from None
        self._open[partition] = (position, file)
        return position

    def _opened(self, partition: int, path: str, position: Position) -> IO[bytes]:
        known = self._open.get(partition)
        if known is not None and known[0] == position:
            return known[1]
        self.release(partition)
        opener: Any = gzip.open if is_gzipped(pathlib.Path(path)) else open
        file: IO[bytes] = opener(path, "rb")
        file.seek(position.byte)
        return file

    def _find(self) -> list[str]:
        if not any(gfile.glob(literal_start(pattern)) for pattern in self._patterns):
            return []
        return files_like(self._patterns)

    def _shown(self) -> str:
        return ", ".join(self._patterns)


def _begin(file: int, path: str) -> Position:
    return Position(file, _mark(path), 0)


def _mark(path: str) -> int:
    return zlib.crc32(os.path.basename(path).encode()) % (1 << _NAME_BITS)
