"""Paths of checkpoints for TensorFlow's readers, which take a path for a pattern.

    with glob_free("/models/[new] run/model.ckpt-500") as path:
        tf.train.load_checkpoint(path)

`tf.train.load_checkpoint` and `RestoreV2` look for the files of a checkpoint with a glob, but open them by the path
itself.  So no escaped form of `[` works for both.  Such a directory is read through a descriptor instead.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator

_SPECIAL = frozenset("*?[]\\")


@contextlib.contextmanager
def glob_free(path: str) -> Iterator[str]:
    """Gives a path of the same file without characters of a glob; it is valid in this process, within the body."""
    directory, name = os.path.split(path)
    if not _SPECIAL & set(directory) or not os.path.isdir(directory):
        yield path
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def files_of_first_format(path: str) -> list[str]:
    """Returns the files of a checkpoint of TensorFlow's first format (SaverDef.V1); [] if it is none.

    It is one file, or files in parts that are named by a pattern, `model.ckpt-?????-of-00002`.
    """
    if match := re.fullmatch(r"(.*-)\?{5}(-of-\d{5})", path, re.DOTALL):
        return sorted(glob.glob(f"{glob.escape(match[1])}?????{match[2]}"))
    return [path] if os.path.isfile(path) else []
