"""The files that patterns of names stand for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence

from tensorflow.io import gfile

from ps_train.base.errors import DataError

INDEX_SUFFIX = ".ps_train_index"
"""End of the names of indices (`record_index.py`), which lie beside data; no pattern matches them."""

_HIDDEN = ("_", ".")
"""First characters of names that are not data, as `_SUCCESS`."""


def files_like(files: str | Sequence[str], below: bool = False) -> list[str]:
    """Returns the names of the files that match one or several patterns, sorted.

    Args:
      files: the patterns, on any file system of TensorFlow.
      below: True takes all files below a directory that matches, but for hidden ones; False leaves it out.

    Raises:
      DataError: there is none.
    """
    patterns = [os.fspath(name) for name in ([files] if isinstance(files, str | os.PathLike) else files)]
    found: set[str] = set()
    for path in (path for pattern in patterns for path in gfile.glob(pattern)):
        if path.endswith(INDEX_SUFFIX):
            continue
        if not gfile.isdir(path):
            found.add(path)
        elif below:
            found.update(_files_below(path))
    if not found:
        raise DataError(f"no file has a name like {', '.join(patterns) or '(nothing)'}: check --data_dir.")
    return sorted(found)


def _files_below(directory: str) -> Iterator[str]:
    for name in gfile.listdir(directory):
        name, path = name.rstrip("/"), os.path.join(directory, name.rstrip("/"))
        if name.startswith(_HIDDEN):
            continue
        if gfile.isdir(path):
            yield from _files_below(path)
        else:
            yield path


def digest(texts: Iterable[str]) -> str:
    """Returns a short fingerprint of some texts, in hexadecimal."""
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()
