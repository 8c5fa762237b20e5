"""Files of deltas: fingerprints of graphs, copies that are compared with their hashes, and new directories.

    with new_folder("/deltas/0002", "--to") as unfinished:
        copy_file("export/2/saved_model.pb", unfinished, "saved_model.pb", digest)

A directory gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator

from ps_train.base.errors import ConfigError, DamagedCheckpointError, one_line
from ps_train.base.untrusted import UntrustedError, path_below
from ps_train.base.whole_file import whole_folder
from ps_train.saved.values import SAVED_MODEL, Saved, hash_of_file


def graph_hash(saved: Saved) -> str:
    """Returns the fingerprint of the graph: of the file of a SavedModel, of the variables' shapes of a checkpoint."""
    if saved.folder:
        return hash_of_file(os.path.join(saved.folder, SAVED_MODEL))
    lines = [f"{key} {dtype.name} {shape}\n" for key, (shape, dtype) in sorted(saved.values.kinds.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def has_hash(path: str, digest: str) -> bool:
    """Returns True for a regular file with this SHA-256."""
    return os.path.isfile(path) and hash_of_file(path) == digest


def copy_file(path: str, target: str, name: str, digest: str) -> None:
    """Copies a file into a directory.

    Args:
      path: the file.
      target: the directory, which need not exist.
      name: name of the copy in it, also below it.
      digest: SHA-256 of the file.

    Raises:
      DamagedCheckpointError: the file is missing, not a regular file, or has another hash.
    """
    try:
        copy = path_below(target, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if not os.path.isfile(path):  # opening a pipe would wait for ever
            raise UntrustedError("it is not a regular file")
        shutil.copyfile(path, copy)
        if not has_hash(copy, digest):
            raise UntrustedError("it has another hash than the manifest says")
    except UntrustedError as error:
        raise DamagedCheckpointError(f"{path} is damaged or missing ({one_line(error)}).") from None


@contextlib.contextmanager
def new_folder(path: str, flag: str) -> Iterator[str]:
    """Gives a directory that gets its name when the body ends well.

    Raises:
      ConfigError: the directory is there already and not empty, or cannot be made.
    """
    target = os.path.abspath(path)
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise ConfigError(f"{flag}={path} is there already: use another directory.")
    with contextlib.ExitStack() as stack:
        try:
            unfinished = stack.enter_context(whole_folder(target))
        except OSError as error:
            raise ConfigError(f"{flag}={path} cannot be made ({error.strerror}): use another directory.") from None
        yield unfinished
