"""Data files for reading, wherever they are: on local disks, TensorFlow's file systems, and those of fsspec.

with opened("s3://bucket/train-0.csv") as file:       # a binary file that can seek
...
size_of("gs://bucket/train-0")                        # bytes
path = local_copy("s3://bucket/train-0")              # for readers that take only names of TensorFlow
...
forget_copy(path)
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any, cast

from ps_train.base.errors import DataError, PsTrainError, one_line
from ps_train.base.remote_files import RemoteDirectory, file_system_of, scheme_of

_REMOTE_BLOCK_BYTES = 1 << 18
"""Bytes of one request to a remote file system, as many as a reader of lines asks for at a time."""


def is_of_tensorflow(path: str) -> bool:
    """Returns True for a path on a file system of TensorFlow, as a local path."""
    return not scheme_of(path) or scheme_of(path) in _gfile().get_registered_schemes()


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """Opens a file for reading; the caller closes it.

    Raises:
      OSError, or an exception of the file system's package: the file cannot be read.  See `errors_of`.
    """
    name = os.fspath(path)
    if not scheme_of(name):
        return open(name, "rb")
    if is_of_tensorflow(name):
        return cast(IO[bytes], _gfile().GFile(name, "rb"))
    return cast(IO[bytes], file_system_of(name).open(name, "rb", block_size=_REMOTE_BLOCK_BYTES))


def size_of(path: str | os.PathLike[str]) -> int:
    """Returns a file's size in bytes.

    Raises:
      DataError: the file cannot be read.
    """
    name = os.fspath(path)
    with told_as_data_error(name):
        if not scheme_of(name):
            return os.path.getsize(name)
        if is_of_tensorflow(name):
            return int(_gfile().stat(name).length)
        return int(file_system_of(name).size(name))


def is_there(path: str) -> bool:
    """Returns True if there is a file or directory of this name.

    Raises:
      ConfigError: the package of its file system is missing.
      OSError, tf.errors.OpError, or an exception of the file system's package.
    """
    if is_of_tensorflow(path):
        return bool(_gfile().exists(path))
    return bool(file_system_of(path).exists(path))


def names_in(directory: str) -> list[str]:
    """Returns the names of the files and directories in a directory.

    Raises:
      ConfigError: the package of its file system is missing.
      OSError, tf.errors.OpError, or an exception of the file system's package.
    """
    if is_of_tensorflow(directory):
        return [name.rstrip("/") for name in _gfile().listdir(directory)]
    return RemoteDirectory(directory).names()


def upload(local: str, path: str) -> None:
    """Copies a local file to an address, and makes its directory; on an object store it appears complete.

    Raises:
      ConfigError: the package of its file system is missing.
      OSError, tf.errors.OpError, or an exception of the file system's package.
    """
    folder, _, name = path.rpartition("/")
    if is_of_tensorflow(path):
        _gfile().makedirs(folder)
        _gfile().copy(local, path, overwrite=True)
    else:
        RemoteDirectory(folder).upload(local, name)


def local_copy(path: str) -> str:
    """Returns the name of a file for TensorFlow: its own, or that of a new copy on the local disk (TMPDIR).

    The copy is in no directory, so it goes with the process, however that ends; `forget_copy` frees it before.

    Raises:
      DataError: the file cannot be read.
    """
    if is_of_tensorflow(path):
        return path
    file = tempfile.TemporaryFile()  # noqa: SIM115 (it stays open as long as the copy is needed)
    copy = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    try:
        with told_as_data_error(path):
            file_system_of(path).get_file(path, copy)
    except BaseException:
        file.close()
        raise
    _copies[copy] = file
    return copy


_copies: dict[str, IO[bytes]] = {}


def forget_copy(copy: str) -> None:
    """Frees a copy that `local_copy` has made; does nothing for another name."""
    if copy in _copies:
        _copies.pop(copy).close()


def errors_of(path: str | os.PathLike[str]) -> tuple[type[Exception], ...]:
    """Returns the exceptions for a file that cannot be read; packages of remote file systems have some of their own."""
    return (Exception,) if scheme_of(os.fspath(path)) else (OSError,)


@contextlib.contextmanager
def told_as_data_error(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes an error of the body, in which a file is read, a DataError with its path."""
    try:
        yield
    except PsTrainError:
        raise
    except errors_of(path) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "message", None) or one_line(error)
        raise DataError(f"{path} cannot be read: {reason.rstrip('.')}.") from None


def _gfile() -> Any:
    from tensorflow.io import gfile  # late: data are described without TensorFlow

    return gfile
