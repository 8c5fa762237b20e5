"""Files at addresses such as `s3://bucket/name`, through fsspec and the package that it names for each kind.

    file_system = file_system_of("s3://bucket/clicks")      # an fsspec file system
    reason = missing_package("s3")                          # "" if fsspec can reach s3://

Credentials, endpoints and retries are those of that package.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from ps_train.base.errors import ConfigError

EXTRAS = ("s3", "gs")
"""Schemes with an extra of their name in setup.py."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def scheme_of(path: str) -> str:
    """Returns the file system in a path, `gs` of `gs://bucket/x`; "" for a local path."""
    found = _SCHEME.match(path)
    return found[1] if found else ""


def missing_package(scheme: str) -> str:
    """Returns why fsspec cannot reach a file system, with the command that helps; "" if it can."""
    install = f"pip install 'ps_train[{scheme}]'" if scheme in EXTRAS else ""
    try:
        import fsspec
    except ImportError:
        return f"{scheme}:// needs fsspec: {install or 'pip install fsspec'}"
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:  # "Install s3fs to access S3"
        return f"{scheme}:// needs a package: {install or str(error).rstrip('.')}"
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
        raise ConfigError(f"{path} cannot be read: {reason}.")
    return _file_system(scheme)


@functools.cache
def _file_system(scheme: str) -> Any:
    import fsspec

    return fsspec.filesystem(scheme)
