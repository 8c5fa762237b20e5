"""Gzipped files, recognised by their first bytes.

is_gzipped("train.csv")       # True if it is gzipped in spite of its name
has_content("train.csv.gz")   # False if it is a gzipped empty file
with unpacked("train.csv") as file:
    file.readline()           # of the content, gzipped or not
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator
from typing import IO, Any

from ps_train.base.errors import DataError
from ps_train.data.opened_files import opened, told_as_data_error

GZIP_START = b"\x1f\x8b\x08"
"""First bytes of all gzipped files (RFC 1952): gzip's mark, and the only method of compression that it has."""


def is_gzipped(path: str | os.PathLike[str]) -> bool:
    """Returns True if a file begins as gzip's files do.

    Raises:
      DataError: the file cannot be read.
    """
    with told_as_data_error(path), opened(path) as file:
        return file.read(len(GZIP_START)) == GZIP_START


@contextlib.contextmanager
def unpacked(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Gives the content of a file, from its beginning, gzipped or not.

    Raises:
      DataError: the file cannot be read, or is damaged.
    """
    with told_as_data_error(path), opened(path) as packed:
        is_packed = packed.read(len(GZIP_START)) == GZIP_START
        packed.seek(0)
        file: Any = gzip.GzipFile(fileobj=packed) if is_packed else packed
        try:
            yield file
        except (EOFError, zlib.error) as error:
            raise DataError(f"{path} cannot be read: {error}.") from None


def has_content(path: str | os.PathLike[str], is_zlib: bool = False) -> bool:
    """Returns False for an empty file, gzipped or not; a damaged file has content, and its reader tells of the damage.

    Args:
      path: of the file.
      is_zlib: True if it is compressed by zlib, which no first bytes tell for sure.

    Raises:
      DataError: the file cannot be read.
    """
    with told_as_data_error(path), opened(path) as file:
        start = file.read(1 << 10)
        try:
            if is_zlib:
                return bool(start and zlib.decompressobj().decompress(start, 1))
            if not start.startswith(GZIP_START):
                return bool(start)
            file.seek(0)
            return bool(gzip.GzipFile(fileobj=file).read(1))
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return True
