"""Gzipped files, recognised by their first bytes.

    is_gzipped(pathlib.Path("train.csv"))       # True if it is gzipped in spite of its name

Standard library only.
"""

from __future__ import annotations

import pathlib

from ps_train.base.errors import DataError

GZIP_START = b"\x1f\x8b\x08"
"""First bytes of all gzipped files (RFC 1952): gzip's mark, and the only method of compression that it has."""


def is_gzipped(path: pathlib.Path) -> bool:
    """Returns True if a file begins as gzip's files do.

    Raises:
      DataError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(GZIP_START)) == GZIP_START
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
