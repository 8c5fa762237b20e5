"""The checkpoints of a run, by the one rule that every reader uses.

    run_checkpoints("/models/run1")         # [(2000, "/models/run1/model.ckpt-2000"), (1000, ...)]
    newest_checkpoint("/models/run1")       # the first of them that is not damaged; None without one

A checkpoint holds the id of its run and its generation (`ps_train/run`).  So files of another run, and steps that were
rolled back, are left out, whatever their numbers are.  A checkpoint without an id must be in TensorFlow's list, the
file `checkpoint`, if there is a list.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import logging
import math
import os
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_train.base.whole_file import write_whole
from ps_train.engine.run_directory.checkpoint_contents import DAMAGED_ERRORS, RUN_KEY, read_kinds, small_value
from ps_train.engine.run_directory.glob_free import files_of_first_format, glob_free
from ps_train.engine.run_directory.run_record import read_record

log = logging.getLogger(__name__)

NAME = "model.ckpt"
LIST = "checkpoint"
"""The file by which TensorFlow's tools find the newest checkpoint."""
_READ_BYTES = 256 << 20
"""Size up to which all values of a checkpoint are read to find damage; of larger ones only the files' sizes count."""
_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, IndexError, MemoryError, OSError)


def checkpoints_in(directory: str) -> list[tuple[int, str]]:
    """Returns (global step, path) of all files of checkpoints in a directory, newest first, whosever they are."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    steps = [int(match[1]) for name in names if (match := re.fullmatch(rf"{NAME}-(\d+)\.index", name))]
    return [(step, path_of(directory, step)) for step in sorted(steps, reverse=True)]


def path_of(directory: str, step: int) -> str:
    """Returns the path of a step's checkpoint."""
    return os.path.join(directory, f"{NAME}-{step}")


def list_text(names: Sequence[str]) -> str:
    """Returns the contents of TensorFlow's list of checkpoints.

    Args:
      names: the checkpoints, newest first.
    """
    lines = [f'model_checkpoint_path: "{names[0]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in reversed(names)]
    return "\n".join(lines) + "\n"


def write_list(directory: str, names: Sequence[str]) -> None:
    """Writes TensorFlow's list of checkpoints; its arguments are those of `list_text`."""
    write_whole(os.path.join(directory, LIST), list_text(names))


def run_checkpoints(directory: str) -> list[tuple[int, str]]:
    """Returns (global step, path) of the run's checkpoints, newest first, including damaged ones."""
    record, listed = read_record(directory), _listed(directory)
    return [
        (step, path)
        for step, path in checkpoints_in(directory)
        if _is_known(path, listed) and record.accepts(*run_of(path), step)
    ]


def foreign_checkpoints(directory: str) -> list[tuple[int, str]]:
    """Returns (global step, path) of checkpoints that another run has written, newest first."""
    run_id, listed = read_record(directory).run_id, _listed(directory)
    return [
        (step, path)
        for step, path in checkpoints_in(directory)
        if not _is_known(path, listed) or (run_id and run_of(path)[0] not in ("", run_id))
    ]


def newest_checkpoint(directory: str) -> str | None:
    """Returns the path of the run's newest undamaged checkpoint; None without one."""
    state = tf.train.get_checkpoint_state(directory) if tf.io.gfile.isdir(directory) else None
    is_local, own_name = os.path.isdir(directory), re.compile(rf"{NAME}-\d+")
    if state is not None and not (is_local and own_name.fullmatch(os.path.basename(state.model_checkpoint_path))):
        found = list(reversed(state.all_model_checkpoint_paths))  # a saver of the user's wrote them, or they are remote
        if is_local:  # a copied directory lists the files of the first one, by their absolute paths
            own = [os.path.join(directory, os.path.basename(path)) for path in found]
            found = [one if _is_there(one) else path for one, path in zip(own, found, strict=True)]
    else:
        found = [path for _, path in run_checkpoints(directory)]
        if not found and state is not None:  # of TensorFlow's first format, which has no index
            listed = [os.path.join(directory, os.path.basename(path)) for path in state.all_model_checkpoint_paths]
            found = [path for path in reversed(listed) if files_of_first_format(path)]
    for path in found:
        if not is_local or is_whole(path):
            return str(path)
        log.warning("checkpoint %s is damaged; trying the one before it", path)
    return None


def _is_there(path: str) -> bool:
    return os.path.isfile(f"{path}.index") or bool(files_of_first_format(path))


def run_of(path: str) -> tuple[str, str]:
    """Returns the run id and the generation in a checkpoint; two "" if it has none or cannot be read."""
    return _run_of(path, files_version(path))


def is_whole(path: str) -> bool:
    """Returns True if a checkpoint is not damaged."""
    return _is_whole(path, files_version(path))


@functools.lru_cache(256)
def _run_of(path: str, version: Any) -> tuple[str, str]:
    try:
        run_id, generation = (text.decode() for text in small_value(path, RUN_KEY, [b"", b""]))
        return run_id, generation
    except _ERRORS:
        return "", ""


@functools.lru_cache(64)
def _is_whole(path: str, version: Any) -> bool:
    try:
        kinds = read_kinds(path)
        sizes = {key: math.prod(shape) * dtype.size for key, (shape, dtype) in kinds.items()}
        if sum(sizes.values()) <= _READ_BYTES:
            with glob_free(path) as readable:
                reader = tf.train.load_checkpoint(readable)
                for key in kinds:
                    with contextlib.suppress(tf.errors.UnimplementedError):  # a slice of the first format
                        reader.get_tensor(key)
            return True
        files = glob.glob(glob.escape(path) + ".data-*")
        if not files and files_of_first_format(path):
            return True  # its values are packed, and have no size of their own
        return sum(os.path.getsize(file) for file in files) >= sum(sizes.values())
    except (*DAMAGED_ERRORS, *_ERRORS):
        return False


def files_version(path: str) -> tuple[tuple[str, int, int, int], ...]:
    """Returns a value that changes when the files of a checkpoint do: each one's path, time in ns, size and inode."""
    found = []
    for file in [*sorted(glob.glob(glob.escape(path) + ".*")), *files_of_first_format(path)]:
        try:
            stat = os.stat(file)
        except OSError:
            continue
        found.append((file, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(found)


def _listed(directory: str) -> frozenset[str]:
    """Returns the names in TensorFlow's list of checkpoints; empty if there is no list."""
    state = tf.train.get_checkpoint_state(directory)
    paths = [] if state is None else [state.model_checkpoint_path, *state.all_model_checkpoint_paths]
    return frozenset(os.path.basename(path) for path in paths)


def _is_known(path: str, listed: frozenset[str]) -> bool:
    is_known = not listed or os.path.basename(path) in listed or run_of(path)[0] != ""
    return is_known or not _is_readable(path, files_version(path))


@functools.lru_cache(256)
def _is_readable(path: str, version: Any) -> bool:
    try:
        read_kinds(path)
    except DAMAGED_ERRORS:
        return False
    return True
