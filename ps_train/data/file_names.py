"""The files that patterns of names stand for."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from tensorflow.io import gfile

from ps_train.base.errors import DataError
from ps_train.base.remote_files import file_system_of
from ps_train.data.opened_files import is_of_tensorflow, told_as_data_error

INDEX_SUFFIX = ".ps_train_index"
"""End of the names of indices (`record_index.py`), which lie beside data; no pattern matches them."""

_HIDDEN = ("_", ".")
"""First characters of names that are not data, as `_SUCCESS`."""


def files_like(files: str | Sequence[str], below: bool = False, source: str = "--data_dir") -> list[str]:
    """Returns the names of the files that match one or several patterns, sorted.

    A file or directory that a pattern names exactly counts as it is, whatever characters its name has.

    Args:
      files: the patterns, on any file system of TensorFlow or fsspec.
      below: True takes all files below a directory that matches, but for hidden ones; False leaves it out.
      source: what the user is told to check.

    Raises:
      DataError: there is none.
    """
    patterns = [os.fspath(name) for name in ([files] if isinstance(files, str | os.PathLike) else files)]
    found: set[str] = set()
    for pattern in patterns:
        some = _like(pattern, below) if is_of_tensorflow(pattern) else _like_on_fsspec(pattern, below)
        found.update(path for path in some if not path.endswith(INDEX_SUFFIX))
    if not found:
        raise DataError(f"no file has a name like {', '.join(patterns) or '(nothing)'}: {_advice(patterns, source)}.")
    return sorted(found)


def _advice(patterns: Sequence[str], source: str) -> str:
    folders = [path for one in patterns if is_of_tensorflow(one) for path in gfile.glob(literal_start(one))]
    if folders:
        return f"{folders[0]} is a directory; give the files in it, or check {source}"
    if any("[" in one for one in patterns):
        return f"check {source}; [ in a name is written as [[] in a pattern"
    return f"check {source}"


def literal_start(pattern: str, exists: Callable[[str], bool] = gfile.exists) -> str:
    """Returns a pattern in which the longest beginning that exists as a file or directory stands for itself.

    Args:
      pattern: may have `*`, `?` and `[...]`.
      exists: returns True if there is a file or directory of a name.
    """
    start = pattern
    while glob.has_magic(start) and not exists(start):
        start = start.rpartition("/")[0]
    return glob.escape(start) + pattern[len(start) :]


def _like(pattern: str, below: bool) -> Iterator[str]:
    for path in gfile.glob(literal_start(pattern)):
        if not gfile.isdir(path):
            yield path
        elif below:
            yield from _files_below(path)


def _like_on_fsspec(pattern: str, below: bool) -> Iterator[str]:
    files = file_system_of(pattern)
    with told_as_data_error(pattern):
        for name, info in sorted(files.glob(literal_start(pattern, files.exists), detail=True).items()):
            inner = files.find(name) if below and info["type"] == "directory" else []
            shown = [one for one in inner if not _is_hidden(one.removeprefix(name))]
            yield from map(files.unstrip_protocol, shown if inner else [name] if info["type"] == "file" else [])


def _is_hidden(path: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.split("/"))


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
