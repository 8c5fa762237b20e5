"""Numbers as the names of exports: servers take the largest.

write_numbered("/export/7.new", write, lambda: f"/export/{next_number(names_in('/export'))}")       # "/export/7"
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import tensorflow as tf
from tensorflow.io import gfile


def next_number(names: Iterable[str], least: int = 1) -> int:
    """Returns the number after the largest among some names, and not less than `least`."""
    return max(least, 1 + max((int(name) for name in names if name.isascii() and name.isdigit()), default=0))


def write_numbered(unfinished: str, write: Callable[[str], object], next_path: Callable[[], str]) -> str:
    """Writes an export, which gets its number when it is complete; returns its path.

    Args:
      unfinished: the directory until then, beside the exports; what a killed process has left there is removed.
      write: writes the export into this directory.
      next_path: returns the next path; it is called again if another process was faster.
    """
    _remove(unfinished)
    try:
        write(unfinished)
        while True:
            path = next_path()
            try:
                gfile.rename(unfinished, path)
                return path
            except tf.errors.OpError:
                if not gfile.exists(path):
                    raise
    except BaseException:
        _remove(unfinished)
        raise


def _remove(folder: str) -> None:
    with contextlib.suppress(tf.errors.OpError):
        gfile.rmtree(folder)
