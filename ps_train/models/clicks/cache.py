"""Synthetic data for users without data: made once for each user and machine, then reused.

directory = cached_synthetic_data()     # ~/.cache/ps_train/criteo-300000, or under $XDG_CACHE_HOME
"""

from __future__ import annotations

import fcntl
import logging
import os
import pathlib
import shutil

from ps_train.base.errors import DataError
from ps_train.models.clicks.synthetic import LINES, write_files

log = logging.getLogger(__name__)


def cached_synthetic_data(lines: int = LINES) -> str:
    """Returns the directory of the data, which it makes if needed.

    If several processes need the data at the same time, one makes it and the others wait.

    Args:
      lines: number of training lines.

    Raises:
      DataError: the cache cannot be written.
    """
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ps_train"
    folder = cache / f"criteo-{lines}"
    try:
        if folder.exists():
            return str(folder)
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"criteo-{lines}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                log.info("no data_dir is given: making %d lines of synthetic clicks in %s", lines, folder)
                unfinished = folder.with_suffix(".unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)
                write_files(str(unfinished), lines)
                unfinished.rename(folder)
    except OSError as error:
        raise DataError(
            f"{cache} cannot be written ({error.strerror or error}): set XDG_CACHE_HOME to a writable directory, or "
            "use --data_dir=PATH."
        ) from None
    return str(folder)
