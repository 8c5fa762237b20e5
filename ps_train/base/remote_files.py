"""Files at addresses such as `s3://bucket/name`, through fsspec and the package that it names for each kind.

    reason = missing_package("s3")                          # "" if fsspec can reach s3://
    file_system = file_system_of("s3://bucket/clicks")      # an fsspec file system
    directory = RemoteDirectory("s3://bucket/runs/1")
    directory.upload("/tmp/model.ckpt-0.index", "model.ckpt-0.index")

Credentials, endpoints and retries are those of that package.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import uuid
from collections.abc import Callable
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.base.extras import Extra, install
from ps_train.base.untrusted import UntrustedError, inner_path, path_below
from ps_train.base.whole_file import whole_file

EXTRAS: tuple[Extra, ...] = ("s3", "gs")
"""Schemes with an extra of their name in setup.py."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_LASTING_ERRORS = (
    FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError, ImportError, NotImplementedError,
    TypeError, ValueError,
)  # fmt: skip


def scheme_of(path: str) -> str:
    """Returns the file system in a path, `gs` of `gs://bucket/x`; "" for a local path."""
    found = _SCHEME.match(path)
    return found[1] if found else ""


def missing_package(scheme: str) -> str:
    """Returns why fsspec cannot reach a file system, with the command that helps; "" if it can."""
    command = next((install(extra) for extra in EXTRAS if extra == scheme), "")
    try:
        import fsspec
    except ImportError:
        return f"{scheme}:// needs fsspec: {command or 'pip install fsspec'}"
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:  # "Install s3fs to access S3"
        return f"{scheme}:// needs a package: {command or str(error).rstrip('.')}"
    except ValueError:
        return f"no package of fsspec knows {scheme}://"
    return ""


def file_system_of(path: str) -> Any:
    """Returns fsspec's file system of an address.

    Raises:
      ConfigError: fsspec or its package for the address is missing.
    """
    scheme = scheme_of(path)
    if reason := missing_package(scheme):
        raise ConfigError(f"{path} cannot be reached: {reason}.")
    return _file_system(scheme)


@functools.cache
def _file_system(scheme: str) -> Any:
    import fsspec

    return fsspec.filesystem(scheme)


_PROBE = "probe-"


def is_probe(name: str) -> bool:
    """Returns True for the name of a file that `RemoteDirectory.check_writable` writes."""
    return re.fullmatch(f"{_PROBE}[0-9a-f]{{32}}", name) is not None


def may_pass(error: Exception) -> bool:
    """Returns True if an error of a file system may be over soon: not missing names, rights or credentials."""
    return not isinstance(error, _LASTING_ERRORS) and "Credential" not in type(error).__name__


def _is_name(name: str) -> bool:
    try:
        return bool(inner_path(name))
    except UntrustedError:
        return False


class RemoteDirectory:
    """A directory on a file system of fsspec; it may be used by several threads.

    All methods raise OSError, or an exception of the file system's package.

    Args:
      url: its address.

    Attributes:
      url: the address, without a slash at its end.
    """

    def __init__(self, url: str) -> None:
        self.url, self._files = url.rstrip("/"), file_system_of(url)
        import fsspec  # late: an extra

        self._root = fsspec.core.url_to_fs(self.url)[1].rstrip("/")

    def check_writable(self) -> None:
        """Writes a file and removes it."""
        name = f"{_PROBE}{uuid.uuid4().hex}"
        self.write(name, b"x")
        self.remove(name)

    def read(self, name: str) -> bytes | None:
        """Returns the contents of a file; None if it is not there."""
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file."""
        self._put(name, lambda path: self._files.pipe_file(path, data))

    def create(self, name: str, data: bytes) -> bool:
        """Writes a file unless it is there; returns False if so.

        S3 and Google's store decide it.  Of two processes that call at once on another store, both may get True.
        """

        def put(path: str) -> None:
            try:
                self._files.pipe_file(path, data, mode="create")
            except (TypeError, NotImplementedError):  # the package has no exclusive writing
                if self._files.exists(path):
                    raise FileExistsError(path) from None
                self._files.pipe_file(path, data)

        try:
            self._put(name, put)
        except Exception:
            self._files.invalidate_cache()
            if self.read(name) not in (None, data):  # the packages raise different errors
                return False
            if self.read(name) is None:
                raise
        return True

    def upload(self, local: str, name: str) -> None:
        """Copies a local file there."""
        self._put(name, lambda path: self._files.put_file(local, path))

    def download(self, name: str, folder: str) -> None:
        """Copies a file to the same name below a local directory, where it appears complete.

        Raises:
          UntrustedError: the name leads out of the directory.
        """
        local = path_below(folder, name)
        os.makedirs(os.path.dirname(local), exist_ok=True)
        with whole_file(local) as new:
            self._files.get_file(self._path(name), new)

    def move(self, name: str, new: str) -> None:
        """Renames a file."""
        self._put(new, lambda path: self._files.mv(self._path(name), path))

    def sizes(self, below: str = "") -> dict[str, int]:
        """Returns the size in bytes of each file, also in subdirectories, by its name.

        A store may have keys that are not names of files, as `a/../b`; they are left out.

        Args:
          below: a subdirectory, to which the names are relative.
        """
        self._files.invalidate_cache()
        root = f"{self._root}/{below}".rstrip("/")
        found = self._files.find(root, detail=True)
        sizes = {path[len(root) + 1 :]: int(info["size"]) for path, info in found.items() if path != root}
        return {name: size for name, size in sizes.items() if _is_name(name)}

    def names(self) -> list[str]:
        """Returns the names of the files and subdirectories in it."""
        self._files.invalidate_cache()
        path = self._path("")
        found = self._files.ls(path, detail=False) if self._files.exists(path) else []  # a store has no empty ones
        return [name for path in found if _is_name(name := path.rstrip("/").rpartition("/")[2])]

    def remove_all(self) -> None:
        """Removes the directory with all that is in it."""
        self._files.rm(self._path(""), recursive=True)

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def make(self) -> None:
        """Makes the directory.  A store of objects needs none; its bucket must exist, and is never made."""
        self._make(self._path(""))

    def _path(self, name: str) -> str:
        return f"{self.url}/{name}".rstrip("/")

    def _put(self, name: str, put: Callable[[str], None]) -> None:
        path = self._path(name)
        try:
            put(path)
        except FileNotFoundError:
            self._make(path.rpartition("/")[0])
            put(path)

    def _make(self, path: str) -> None:
        top = "/" if self._root.startswith("/") else self._root.partition("/")[0]
        if not self._files.exists(top):  # some packages would make the bucket
            raise FileNotFoundError(f"{top} does not exist")
        self._files.makedirs(path, exist_ok=True)
