"""Checkpoints that the chief itself writes and reads, whatever the number of ps.

    checkpoints = Checkpoints("/models/run1", keep=5, stored=step.stored, device="/job:worker/replica:0/task:0")
    checkpoints.save(session)
    checkpoints.restore(session)               # the newest that is whole; its global step, or None

`tf.compat.v1.train.Saver` puts its save and restore operations on the variables' devices, so that files land on the
disks of the ps.  Here the operations are on the chief.  The files are TensorFlow's own (`tf.train.load_checkpoint`).
Large variables come to the chief and go back in chunks (`checkpoint/chunked_io.py`), so that it needs no room for them.
That all values are of one moment is the business of `snapshots.py`.
"""

from __future__ import annotations

import dataclasses
import glob
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint.chunked_io import Chunk, split_into_chunks
from ps_train.checkpoint.contents import DAMAGED_ERRORS, Kind, check_kind, read_kinds
from ps_train.cluster.calls import CHUNK_CALL
from ps_train.coordination.kv_store import cause_of
from ps_train.embeddings.plain_vocabulary import AFTER_RESTORE
from ps_train.errors import ConfigError, ModelError, SaveError
from ps_train.placement.variables import CheckpointEntry, ps_index

log = logging.getLogger(__name__)

_NAME = "model.ckpt"
GLOBAL_STEP = "global_step"
CHUNK_BYTES = 32 << 20
"""What the chief holds at once: its messages and files cost nothing beside so many bytes."""

_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)


def prepare_directory(path: str) -> str:
    """Makes the directory and checks that it can be written to; returns its absolute path."""
    absolute = os.path.abspath(path)
    try:
        os.makedirs(absolute, exist_ok=True)
        with tempfile.TemporaryFile(dir=absolute) as probe:  # another host's process may have the same pid
            probe.write(b"x")
    except OSError as error:
        raise ConfigError(f"model_dir={path} cannot be written to ({error.strerror}): use another directory.") from None
    return absolute


def checkpoints_in(directory: str) -> list[tuple[int, str]]:
    """(global step, path) of the checkpoints in a directory, newest first; damaged ones included."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    steps = [int(match[1]) for name in names if (match := re.fullmatch(rf"{_NAME}-(\d+)\.index", name))]
    return [(step, path_of(directory, step)) for step in sorted(steps, reverse=True)]


def path_of(directory: str, step: int) -> str:
    return os.path.join(directory, f"{_NAME}-{step}")


_Run = tuple[tf.Operation, Mapping[Any, Any]]


@dataclasses.dataclass(frozen=True)
class _Saves:
    """What writes a checkpoint: the global step, and what is run in turn, with its feeds."""

    step: tf.Tensor
    runs: list[_Run]


class Checkpoints:
    """Saves and restores variables of the current graph (build it when all is there, before the graph is finalized).
    What is computed from variables (`known.AFTER_RESTORE`) is computed again after a restore.

    Args:
      directory: absolute.
      keep: how many checkpoints stay.
      stored: the variables.
      device: where the file operations run.
      copies: copies of them that can be saved in their place (`checkpoint/shadow_copies.py`).
    """

    def __init__(
        self,
        directory: str,
        keep: int,
        stored: Sequence[CheckpointEntry],
        device: str,
        copies: Sequence[CheckpointEntry] = (),
    ) -> None:
        self.directory = directory
        self._keep = keep
        self._stored = stored
        with tf.device(device + "/device:CPU:0"):
            self._prefix = v1.placeholder(tf.string, [], "checkpoint_prefix")
            # Fed, because other workers may go on: what the file says must be what its name says.
            self._step_saved = v1.placeholder(tf.int64, [], "checkpoint_step")
            self._file = v1.placeholder(tf.string, [], "checkpoint_file")
            self._saves = {False: self._saving_all(stored)} | ({True: self._saving_all(copies)} if copies else {})
            self._restores = {
                ps: [run for part in split_into_chunks(some, CHUNK_BYTES) for run in self._restoring(part)]
                for ps, some in _by_ps(stored).items()
            }
        self._restored = tf.group(*v1.get_collection(AFTER_RESTORE))

    def _saving_all(self, stored: Sequence[CheckpointEntry]) -> _Saves:
        step = next(s.variable for s in stored if s.key == GLOBAL_STEP)
        parts = split_into_chunks([one for one in stored if not one.follower], CHUNK_BYTES)
        found = [run for part in parts for run in self._saving(part)]
        if len(found) == 1:
            return _Saves(step.read_value(), [(found[0][0], {self._file: ""})])
        files = [f"_temp/part-{number:05}" for number in range(len(found))]
        merge = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=tf.stack([self._prefix + file for file in files]),
            destination_prefix=self._prefix,
            delete_old_dirs=True,
        )
        runs = [(operation, {**turn, self._file: file}) for (operation, turn), file in zip(found, files, strict=True)]
        return _Saves(step.read_value(), [*runs, (merge, {})])

    def _saving(self, part: Chunk) -> list[_Run]:
        keys = [one.key for one in part.stored]
        values = zip(keys, part.read(), strict=True)
        saved = tf.raw_ops.SaveV2(
            prefix=self._prefix + self._file,
            tensor_names=keys,
            shape_and_slices=part.specs,
            tensors=[self._step_saved if key == GLOBAL_STEP else value for key, value in values],
        )
        return [(saved, turn) for turn in part.feeds]

    def _restoring(self, part: Chunk) -> list[_Run]:
        values = tf.raw_ops.RestoreV2(
            prefix=self._prefix,
            tensor_names=[one.key for one in part.stored],
            shape_and_slices=part.specs,
            dtypes=[one.variable.dtype.base_dtype for one in part.stored],
        )
        written = part.write(values)
        return [(written, turn) for turn in part.feeds]

    def save(self, session: v1.Session, copies: bool = False) -> int:
        """Writes the variables' present values, or those of the copies, as the checkpoint of their global step, which
        it returns.  Where others change them meanwhile, some are newer.

        Raises SaveError where the disk does not take it."""
        began, saves = time.monotonic(), self._saves[copies]
        step = int(session.run(saves.step))
        path = path_of(self.directory, step)
        try:
            self._write(session, saves.runs, {self._prefix: path, self._step_saved: step})
            log.debug("checkpoint %d is written in %.1fs", step, time.monotonic() - began)
            self._forget_old(step)
        except (tf.errors.OpError, OSError) as error:
            if isinstance(error, _LOST):
                raise
            raise SaveError(f"checkpoint {path} could not be written ({cause_of(error)})") from None
        return step

    def _write(self, session: v1.Session, runs: Sequence[_Run], feeds: Mapping[Any, Any]) -> None:
        os.makedirs(self.directory, exist_ok=True)  # it may have vanished
        for left in glob.glob(glob.escape(os.path.join(self.directory, _NAME)) + "-*_temp"):
            shutil.rmtree(left, ignore_errors=True)  # of a save that did not come to its end
        _run_each(session, runs, feeds)

    def _forget_old(self, step: int) -> None:
        everything = checkpoints_in(self.directory)
        if step not in dict(everything):
            raise FileNotFoundError(f"{self.directory} vanished meanwhile")
        self._write_state([path for _, path in everything[: self._keep]])
        for _, old in everything[self._keep :]:
            for file in glob.glob(glob.escape(old) + ".*"):
                os.remove(file)

    def path(self, step: int) -> str:
        return path_of(self.directory, step)

    def restore(self, session: v1.Session, only: Collection[int] | None = None) -> int | None:
        """Restores the newest whole checkpoint, if any; returns its step.  ModelError: it is another model's.

        Args:
          only: the ps whose variables are restored; None: all.
        """
        wanted = [run for ps, runs in self._restores.items() if only is None or ps in only for run in runs]
        for step, path in checkpoints_in(self.directory):
            began = time.monotonic()
            try:
                self._check(path, read_kinds(path))
                _run_each(session, wanted, {self._prefix: path})
                session.run(self._restored, options=CHUNK_CALL)
            except DAMAGED_ERRORS as error:
                log.warning("checkpoint %s is damaged (%s); trying the one before it", path, cause_of(error))
                continue
            log.debug("checkpoint %d is restored in %.1fs", step, time.monotonic() - began)
            return step
        return None

    def _write_state(self, kept: Sequence[str]) -> None:
        """The file `checkpoint`, by which TensorFlow's own tools find the newest; replaced in one step."""
        names = [os.path.basename(path) for path in kept]
        lines = [f'model_checkpoint_path: "{names[0]}"']
        lines += [f'all_model_checkpoint_paths: "{name}"' for name in reversed(names)]
        temporary = os.path.join(self.directory, "checkpoint.new")
        with open(temporary, "w") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(temporary, os.path.join(self.directory, "checkpoint"))

    def _check(self, path: str, kinds: Mapping[str, Kind]) -> None:
        """A checkpoint of another model is an error, which must not look like a damaged file."""
        for stored in (s for s in self._stored if s.advice and s.key not in kinds):
            like = [key for key in kinds if key.startswith(os.path.dirname(stored.key) + "/")]
            raise ModelError(f"checkpoint {path} has {', '.join(like) or 'nothing'} for {stored.key}: {stored.advice}")
        missing = sorted({s.key for s in self._stored} - kinds.keys())
        if missing:
            raise ModelError(
                f"checkpoint {path} has no {', '.join(missing[:5])}: it is of another model or optimizer; "
                "use another --model_dir."
            )
        for stored in self._stored:
            check_kind(path, stored.key, kinds[stored.key], (_full_shape(stored), stored.variable.dtype.base_dtype))


def _run_each(session: v1.Session, runs: Sequence[_Run], feeds: Mapping[Any, Any]) -> None:
    for operation, turn in runs:
        session.run(operation, {**feeds, **turn}, CHUNK_CALL)


def _by_ps(stored: Sequence[CheckpointEntry]) -> dict[int, list[CheckpointEntry]]:
    found: dict[int, list[CheckpointEntry]] = {}
    for one in stored:
        found.setdefault(ps_index(one.variable), []).append(one)
    return found


def _full_shape(stored: CheckpointEntry) -> list[int]:
    if stored.slice_spec:
        return [int(size) for size in stored.slice_spec.split(" ")[:-1]]
    shape: Any = stored.variable.shape
    return list(shape.as_list())
