"""Gzipped files, recognised by their first bytes.

is_gzipped("train.csv")       # True if it is gzipped in spite of its name
"""

from __future__ import annotations

import os

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
