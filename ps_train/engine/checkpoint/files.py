"""Checkpoint files, which the chief writes and reads for any number of ps.

    checkpoints = Checkpoints("/models/run1", keep=5, entries=step.ps.entries, device="/job:worker/replica:0/task:0")
    checkpoints.save(session)
    checkpoints.restore(session)               # the newest undamaged one; returns its global step, or None

`tf.compat.v1.train.Saver` places its save and restore operations on the variables' devices, so that files land on the
disks of the ps.  Here the operations run on the chief.  The files have TensorFlow's own format
(`tf.train.load_checkpoint`).  The chief moves large variables in chunks (`engine/checkpoint/chunked_io.py`), so it
needs no memory for whole variables.  `engine/checkpoint/async_saver.py` ensures that all values belong to one moment.
"""

from __future__ import annotations

import dataclasses
import glob
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, SaveError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import CHUNK_CALL, PS_LOST_ERRORS
from ps_train.engine.checkpoint.chunked_io import Chunk, split_into_chunks
from ps_train.engine.checkpoint.contents import DAMAGED_ERRORS, RUN_KEY, check_entries, read_kinds
from ps_train.engine.checkpoint.glob_free import glob_free
from ps_train.engine.checkpoint.run_checkpoints import (
    NAME,
    checkpoints_in,
    foreign_checkpoints,
    newest_checkpoint,
    path_of,
    run_checkpoints,
)
from ps_train.engine.checkpoint.save_listeners import NO_LISTENERS, SaveListeners
from ps_train.engine.variables.variables import CheckpointEntry, ps_index
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE

log = logging.getLogger(__name__)


def needed_checkpoint(model_dir: str) -> str:
    """Returns the path of the newest checkpoint; raises ValueError if there is none."""
    checkpoint = newest_checkpoint(model_dir)
    if checkpoint is None:
        raise ValueError(f"Couldn't find trained model: model_dir={model_dir} has no checkpoint; train first.")
    return str(checkpoint)


def saved_step(model_dir: str) -> int:
    """Returns the global step of the newest checkpoint; 0 if there is none."""
    checkpoint = newest_checkpoint(model_dir)
    reader = tf.train.load_checkpoint(checkpoint) if checkpoint else None
    return int(reader.get_tensor(GLOBAL_STEP)) if reader and reader.has_tensor(GLOBAL_STEP) else 0


GLOBAL_STEP = "global_step"
CHUNK_BYTES = 32 << 20
"""Size of a chunk, which the chief holds at once: large enough that the costs of each message and file are small."""


def prepare_directory(path: str) -> str:
    """Makes the directory, checks that it can be written to, and returns its absolute path.

    Raises:
      ConfigError: the directory cannot be written to, or a directory in it has the name of a file of the run.
    """
    absolute = os.path.abspath(path)
    try:
        os.makedirs(absolute, exist_ok=True)
        with tempfile.TemporaryFile(dir=absolute) as probe:  # another host's process may have the same pid
            probe.write(b"x")
    except OSError as error:
        raise ConfigError(f"model_dir={path} cannot be written to ({error.strerror}): use another directory.") from None
    for name in ("checkpoint", "result.json", "run_id"):
        if os.path.isdir(os.path.join(absolute, name)):
            raise ConfigError(f"model_dir={path} has a directory {name}, which is to be a file: use another directory.")
    return absolute


_Run = tuple[tf.Operation, Mapping[Any, Any]]


@dataclasses.dataclass(frozen=True)
class _Saves:
    """The calls that write a checkpoint.

    Attributes:
      step: int64 scalar, the global step.
      runs: operation and feeds of each call, in order.
    """

    step: tf.Tensor
    runs: list[_Run]


class _Restore(NamedTuple):
    """A call that restores a part of a checkpoint.

    Attributes:
      run: operation and feeds.
      optional_key: the call is made only if the checkpoint has this key; "" for always.
    """

    run: _Run
    optional_key: str


class Checkpoints:
    """Saver of the current graph's variables; build it last, before the graph is finalized.

    Values that are computed from variables (`plain_vocabulary.AFTER_RESTORE`) are computed again after a restore.

    Args:
      directory: absolute path of the directory.
      keep: number of checkpoints to keep.
      entries: the variables.
      device: device of the file operations.
      copies: copies of the variables that can be saved in their place (`engine/checkpoint/shadow_copies.py`).
      listeners: the user's listeners.

    Attributes:
      listeners: the user's listeners; `save` tells them only that it begins.
      directory: absolute path of the directory.
      written: number of checkpoints that were written.
      run: id of the run and generation, which each checkpoint holds; set before the first save.
    """

    def __init__(
        self,
        directory: str,
        keep: int,
        entries: Sequence[CheckpointEntry],
        device: str,
        copies: Sequence[CheckpointEntry] = (),
        listeners: SaveListeners = NO_LISTENERS,
    ) -> None:
        self.directory, self.written, self.listeners = directory, 0, listeners
        self.run = ("", "")
        self._keep = keep
        self._entries = entries
        with tf.device(device + "/device:CPU:0"):
            self._prefix = v1.placeholder(tf.string, [], "checkpoint_prefix")
            # The step is fed because other workers may continue: the file's content must agree with its name.
            self._step_saved = v1.placeholder(tf.int64, [], "checkpoint_step")
            self._run = v1.placeholder(tf.string, [2], "checkpoint_run")
            self._file = v1.placeholder(tf.string, [], "checkpoint_file")
            self._saves = {False: self._saving_all(entries)} | ({True: self._saving_all(copies)} if copies else {})
            self._restores = {ps: self._restoring_all(some) for ps, some in _by_ps(entries).items()}
        self._after_restore = tf.group(*v1.get_collection(AFTER_RESTORE))

    def _saving_all(self, entries: Sequence[CheckpointEntry]) -> _Saves:
        step = next(entry.variable for entry in entries if entry.key == GLOBAL_STEP)
        chunks = split_into_chunks([entry for entry in entries if not entry.follower], CHUNK_BYTES)
        with_run = next(chunk for chunk in chunks if len(chunk.feeds) == 1)  # the global step is in one
        saves = [run for chunk in chunks for run in self._saving(chunk, chunk is with_run)]
        if len(saves) == 1:
            return _Saves(step.read_value(), [(saves[0][0], {self._file: ""})])
        files = [f"_temp/part-{number:05}" for number in range(len(saves))]
        merge = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=tf.stack([self._prefix + file for file in files]),
            destination_prefix=self._prefix,
            delete_old_dirs=True,
        )
        runs = [(operation, {**feeds, self._file: file}) for (operation, feeds), file in zip(saves, files, strict=True)]
        return _Saves(step.read_value(), [*runs, (merge, {})])

    def _saving(self, chunk: Chunk, with_run: bool) -> list[_Run]:
        keys = [entry.key for entry in chunk.entries]
        tensors = [
            self._step_saved if key == GLOBAL_STEP else value for key, value in zip(keys, chunk.read(), strict=True)
        ]
        specs = chunk.specs
        if with_run:
            keys, specs, tensors = [*keys, RUN_KEY], [*specs, ""], [*tensors, self._run]
        saved = tf.raw_ops.SaveV2(
            prefix=self._prefix + self._file, tensor_names=keys, shape_and_slices=specs, tensors=tensors
        )
        return [(saved, feeds) for feeds in chunk.feeds]

    def _restoring_all(self, entries: Sequence[CheckpointEntry]) -> list[_Restore]:
        """Returns the calls that restore entries; one for each entry that a checkpoint may lack."""
        groups = [[entry for entry in entries if not entry.optional], *([e] for e in entries if e.optional)]
        return [
            _Restore(run, group[0].key if group[0].optional else "")
            for group in groups
            for chunk in split_into_chunks(group, CHUNK_BYTES)
            for run in self._restoring(chunk)
        ]

    def _restoring(self, chunk: Chunk) -> list[_Run]:
        values = tf.raw_ops.RestoreV2(
            prefix=self._prefix,
            tensor_names=[entry.key for entry in chunk.entries],
            shape_and_slices=chunk.specs,
            dtypes=[entry.variable.dtype.base_dtype for entry in chunk.entries],
        )
        written = chunk.write(values)
        return [(written, feeds) for feeds in chunk.feeds]

    def save(self, session: v1.Session, copies: bool = False) -> int:
        """Writes a checkpoint of the variables' present values and returns its global step.

        Values that other processes change during the write may be newer than that step.

        Args:
          session: a session of this graph.
          copies: write the copies instead of the variables.

        Raises:
          SaveError: the files could not be written.
        """
        began, saves = time.monotonic(), self._saves[copies]
        step = int(session.run(saves.step))
        path = path_of(self.directory, step)
        self.listeners.before(session, step)
        try:
            self._write(session, saves.runs, {self._prefix: path, self._step_saved: step, self._run: list(self.run)})
            self.written += 1
            log.debug("checkpoint %d is written in %.1fs", step, time.monotonic() - began)
            self._forget_old(step)
        except (tf.errors.OpError, OSError) as error:
            if isinstance(error, PS_LOST_ERRORS):
                raise
            raise SaveError(f"checkpoint {path} could not be written ({cause_of(error)})") from None
        return step

    def _write(self, session: v1.Session, runs: Sequence[_Run], feeds: Mapping[Any, Any]) -> None:
        os.makedirs(self.directory, exist_ok=True)  # the directory may have been removed
        for leftover in glob.glob(glob.escape(os.path.join(self.directory, NAME)) + "-*_temp"):
            shutil.rmtree(leftover, ignore_errors=True)  # from an unfinished save
        _run_each(session, runs, feeds)

    def _forget_old(self, step: int) -> None:
        """Removes the run's older checkpoints; those of other runs, and higher numbers, are left alone."""
        everything = checkpoints_in(self.directory)
        if step not in dict(everything):
            raise FileNotFoundError(f"{self.directory} was removed during the save")
        foreign = dict(foreign_checkpoints(self.directory))
        older = [path for number, path in run_checkpoints(self.directory) if number < step]
        kept = [self.path(step), *older][: self._keep]
        self._write_state(kept)
        for old in [
            path for number, path in everything if number < step and number not in foreign and path not in kept
        ]:
            for file in glob.glob(glob.escape(old) + ".*"):
                os.remove(file)

    def path(self, step: int) -> str:
        """Returns the path of a step's checkpoint."""
        return path_of(self.directory, step)

    def restore(self, session: v1.Session, only: Collection[int] | None = None) -> int | None:
        """Restores the newest undamaged checkpoint and returns its step, or None without any.

        Args:
          session: a session of this graph.
          only: the ps whose variables are restored; None: all.

        Raises:
          ModelError: the checkpoint belongs to another model.
          ConfigError: there are checkpoints, but none can be read.
        """
        selected = [one for ps, some in self._restores.items() if only is None or ps in only for one in some]
        found, damage = run_checkpoints(self.directory), ""
        for step, path in found:
            began = time.monotonic()
            try:
                kinds = read_kinds(path)
                check_entries(path, self._entries, kinds)
                with glob_free(path) as readable:
                    runs = [one.run for one in selected if not one.optional_key or one.optional_key in kinds]
                    _run_each(session, runs, {self._prefix: readable})
                session.run(self._after_restore, options=CHUNK_CALL)
            except DAMAGED_ERRORS as error:
                damage = damage or f"{os.path.basename(path)} is damaged: {cause_of(error)}"
                if step != found[-1][0]:
                    log.warning("checkpoint %s is damaged (%s); trying the one before it", path, cause_of(error))
                continue
            log.debug("checkpoint %d is restored in %.1fs", step, time.monotonic() - began)
            return step
        if found:
            raise ConfigError(
                f"no checkpoint in {self.directory} can be read ({damage}; {len(found)} in all): restore the files, "
                "use --ignore_checkpoints to start at step 0, or use another --model_dir."
            )
        if foreign := foreign_checkpoints(self.directory):
            raise ConfigError(
                f"{foreign[0][1]} is of another run than the file run_id in {self.directory} says ({len(foreign)} in "
                "all): remove run_id to go on from it, use --ignore_checkpoints to start at step 0, or use another "
                "--model_dir."
            )
        return None

    def forget_newer(self, step: int) -> None:
        """Takes steps after a restored one from TensorFlow's list; their files are left alone."""
        kept = [path for number, path in run_checkpoints(self.directory) if number <= step][: self._keep]
        if kept:
            self._write_state(kept)

    def _write_state(self, kept: Sequence[str]) -> None:
        """Replaces the file `checkpoint`, by which TensorFlow's tools find the newest checkpoint, atomically."""
        names = [os.path.basename(path) for path in kept]
        lines = [f'model_checkpoint_path: "{names[0]}"']
        lines += [f'all_model_checkpoint_paths: "{name}"' for name in reversed(names)]
        temporary = os.path.join(self.directory, "checkpoint.new")
        with open(temporary, "w") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(temporary, os.path.join(self.directory, "checkpoint"))


def _run_each(session: v1.Session, runs: Sequence[_Run], feeds: Mapping[Any, Any]) -> None:
    for operation, own_feeds in runs:
        session.run(operation, {**feeds, **own_feeds}, CHUNK_CALL)


def _by_ps(entries: Sequence[CheckpointEntry]) -> dict[int, list[CheckpointEntry]]:
    found: dict[int, list[CheckpointEntry]] = {}
    for entry in entries:
        found.setdefault(ps_index(entry.variable), []).append(entry)
    return found
