"""Paths in flags: `~` is expanded, and an address of another file system is not taken for a local directory.

    local_path("model_dir", "~/runs/1", "")                     # "/home/me/runs/1"
    local_path("log_dir", "gs://bucket/1", "", is_local=True)   # raises ConfigError

Data, exports and the model directory may be on other file systems (`config/file_systems.py`).
"""

from __future__ import annotations

import os

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import scheme_of

_OF_ONE_PROCESS = ("memory", "ram")
"""File systems of fsspec and TensorFlow that every process has for itself."""


def working_directory() -> str:
    """Returns the working directory.

    Raises:
      ConfigError: it was removed.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise ConfigError(f"the working directory is not there ({error.strerror}): change to another one.") from None


def check_local(name: str, path: str) -> None:
    """Raises ConfigError for an address, where files of checkpoints are read or written in parts."""
    if scheme_of(path):
        raise ConfigError(f"{name}={path} is not a local path: use a local path or a mounted bucket.")


def local_path(name: str, value: str, source: str, is_local: bool = False) -> str:
    """Returns the path with `~` expanded.

    Args:
      name: the flag.
      value: as the user wrote it.
      source: ` (from the command line)`, for errors.
      is_local: True if the file must be on a file system of this machine.

    Raises:
      ConfigError: it is not the path that the user means.
    """
    given = f"{name}={value if value.isprintable() else ascii(value)[1:-1]}{source}"
    if not value.isprintable():
        raise ConfigError(f"{given} has characters that cannot be printed: use another path.")
    scheme = scheme_of(value)
    if scheme == "file":
        return "/" + value.partition(":")[2].lstrip("/")
    if scheme and is_local:
        raise ConfigError(
            f"{given} is not a local path, and this file must be local: use a local path or a mounted bucket."
        )
    if scheme in _OF_ONE_PROCESS and name in ("model_dir", "to"):
        raise ConfigError(f"{given} is in the memory of one process: use a local path or an object store.")
    if scheme and not value.startswith(f"{scheme}://"):
        raise ConfigError(f"{given} is not an address: use {scheme}://NAME/PATH, or ./{value} for a local path.")
    expanded = os.path.expanduser(value)
    if expanded.startswith("~"):
        raise ConfigError(f"{given}: there is no home directory of {value.partition('/')[0]}: use a full path.")
    return expanded
