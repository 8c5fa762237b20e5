"""Checkpoint files, which the chief and the ps write and read for any number of ps.

    checkpoints = Checkpoints("/models/run1", KeptCheckpoints(5), step.ps.entries, "/job:worker/replica:0/task:0")
    checkpoints.save(session)
    checkpoints.restore(session)               # the newest undamaged one; returns its global step, or None

`tf.compat.v1.train.Saver` places its save and restore operations on the variables' devices, so that files land on the
disks of the ps.  Here they run there only if the ps sees the chief's directory (`directory_probe.py`), and on the chief
otherwise.  The chief then joins all parts and writes the index.  The files have TensorFlow's own format
(`tf.train.load_checkpoint`).  Large variables are moved in chunks (`engine/checkpoint/chunked_io.py`), so no memory is
needed for whole variables.  `engine/checkpoint/async_saver.py` ensures that all values belong to one moment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import logging
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, DamagedCheckpointError, SaveError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import CHUNK_CALL, PS_LOST_ERRORS, beside
from ps_train.engine.checkpoint.chunked_io import Chunk, RowChunk, entries_by_ps, split_into_chunks
from ps_train.engine.checkpoint.directory_probe import DirectoryProbe
from ps_train.engine.checkpoint.parallel_calls import run_beside
from ps_train.engine.checkpoint.save_listeners import NO_LISTENERS, SaveListeners
from ps_train.engine.checkpoint.snapshot import Snapshot
from ps_train.engine.run_directory.checkpoint_contents import (
    CHUNK_BYTES,
    DAMAGED_ERRORS,
    GLOBAL_STEP,
    LAYOUTS_KEY,
    RUN_KEY,
    check_entries,
    read_kinds,
    small_value,
)
from ps_train.engine.run_directory.glob_free import glob_free
from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints
from ps_train.engine.run_directory.lasting_checkpoints import forget_lasting_after
from ps_train.engine.run_directory.run_checkpoints import (
    NAME,
    checkpoints_in,
    foreign_checkpoints,
    newest_checkpoint,
    path_of,
    run_checkpoints,
    write_list,
)
from ps_train.engine.variables.old_rows import OldRows
from ps_train.engine.variables.variables import CheckpointEntry, keys_in, on_worker, ps_device
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.table_layout import layouts_text

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
    return int(small_value(checkpoint, GLOBAL_STEP, 0)) if checkpoint else 0


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


AroundPart = Callable[[int], contextlib.AbstractContextManager[Any]]


class _Call(NamedTuple):
    """A call that saves or restores a chunk.

    Attributes:
      by_chief: operation that does it with the chief's files.
      by_ps: operation that does it with the files of the ps; None for slices of several ps.
      ps: index of the ps; -1 for slices of several ps.
      optional_key: the call is made only if the checkpoint has this key; "" for always.
      keys: string tensor of the keys, fed for a checkpoint that may have others; None if they are always the same.
      entries: the entries of these keys.
    """

    by_chief: tf.Operation
    by_ps: tf.Operation | None
    ps: int
    feeds: Mapping[Any, Any]
    optional_key: str = ""
    keys: tf.Tensor | None = None
    entries: Sequence[CheckpointEntry] = ()

    def reading(self, kinds: Collection[str]) -> _Call:
        """Returns the call for a checkpoint with these keys."""
        if self.keys is None:
            return self
        return self._replace(feeds={**self.feeds, self.keys: keys_in(kinds, self.entries)})


@dataclasses.dataclass(frozen=True)
class _Saves:
    """The calls that write a checkpoint.

    Attributes:
      step: int64 scalar, the global step.
      copied: calls for small and dense variables.
      tables: calls for large tables, of which the snapshot has the old rows; after the others.
    """

    step: tf.Tensor
    copied: list[_Call]
    tables: list[_Call] = dataclasses.field(default_factory=list)


class Checkpoints:
    """Saver of variables of the default graph, to which it adds operations.

    Its sessions are of this graph, or sessions beside which one of this graph can be.

    Args:
      directory: absolute path of the directory.
      rule: which checkpoints are kept.
      entries: the variables.
      device: device of the chief's file operations.
      snapshot: the snapshot that can be saved in place of the variables' present values.
      listeners: the user's listeners.
      writers: `--checkpoint_writers`: chief, ps or auto.
      tables: name to declaration of each table, whose layout the checkpoints describe.
      after_restore: operation that computes again what is computed from variables, in the graph of the given sessions.
      shown_directory: the directory as messages name it: an address if `directory` is its spool; "" for itself.

    Attributes:
      listeners: the user's listeners; `save` tells them only that it begins.
      directory: absolute path of the directory.
      written: number of checkpoints that were written.
      newest: step of the checkpoint that was written last; None before the first.
      run: id of the run and generation, which each checkpoint holds.
      shown_directory: the directory as messages name it.
    """

    def __init__(
        self,
        directory: str,
        rule: KeptCheckpoints,
        entries: Sequence[CheckpointEntry],
        device: str,
        snapshot: Snapshot | None = None,
        listeners: SaveListeners = NO_LISTENERS,
        writers: str = "auto",
        tables: Mapping[str, Table] | None = None,
        after_restore: tf.Operation | None = None,
        shown_directory: str = "",
    ) -> None:
        self.directory, self.written, self.listeners = directory, 0, listeners
        self.newest: int | None = None
        self.run, self.shown_directory = ("", ""), shown_directory or directory
        self._rule, self._graph = rule, v1.get_default_graph()
        self._entries, self._layouts = entries, layouts_text(tables) if tables else ""
        with on_worker(device), tf.device("/device:CPU:0"):
            self._prefix = v1.placeholder(tf.string, [], "checkpoint_prefix")
            # The step is fed because other workers may continue: the file's content must agree with its name.
            self._step_saved = v1.placeholder(tf.int64, [], "checkpoint_step")
            self._run = v1.placeholder(tf.string, [2], "checkpoint_run")
            self._file = v1.placeholder(tf.string, [], "checkpoint_file")
            self._parts = v1.placeholder(tf.string, [None], "checkpoint_parts")
            self._merge = tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=self._parts, destination_prefix=self._prefix, delete_old_dirs=True
            )
            by_ps = entries_by_ps(entries)
            self._directory_probe = DirectoryProbe(sorted(by_ps)) if writers != "chief" else None
            self._saves = {False: self._saving_all(entries)}
            if snapshot is not None:
                self._saves[True] = self._saving_all(snapshot.copies, snapshot.tables)
            self._restores = {ps: self._restoring_all(some) for ps, some in by_ps.items()}
        self._writers, self._own_files = writers, frozenset[int]()
        self._after_restore = after_restore

    def _saving_all(
        self, entries: Sequence[CheckpointEntry], tables: Sequence[tuple[OldRows, list[CheckpointEntry]]] = ()
    ) -> _Saves:
        step = next(entry.variable for entry in entries if entry.key == GLOBAL_STEP)
        chunks = split_into_chunks([entry for entry in entries if not entry.follower], CHUNK_BYTES)
        rows = [RowChunk(some, CHUNK_BYTES, old) for old, some in tables]
        copied, kept = ([call for chunk in some for call in self._saving(chunk)] for some in (chunks, rows))
        return _Saves(step.read_value(), copied, kept)

    def _saving(self, chunk: Chunk) -> list[_Call]:
        keys = [entry.key for entry in chunk.entries]
        specs, tensors = chunk.specs, chunk.read()
        if GLOBAL_STEP in keys:
            tensors[keys.index(GLOBAL_STEP)] = self._step_saved
            keys, specs, tensors = [*keys, RUN_KEY], [*specs, ""], [*tensors, self._run]
            if self._layouts:
                keys, specs, tensors = [*keys, LAYOUTS_KEY], [*specs, ""], [*tensors, tf.constant(self._layouts)]
        prefix = self._prefix + self._file
        return self._calls(
            chunk,
            lambda: tf.raw_ops.SaveV2(prefix=prefix, tensor_names=keys, shape_and_slices=specs, tensors=tensors),
        )

    def _calls(self, chunk: Chunk, make: Callable[[], tf.Operation], optional_key: str = "") -> list[_Call]:
        """Returns the calls that move a chunk; `make` adds the operation to the graph, on the present device."""
        by_chief, by_ps = make(), None
        if chunk.ps is not None and self._directory_probe is not None:
            with tf.device(ps_device(chunk.ps)):
                by_ps = make()
        ps = -1 if chunk.ps is None else chunk.ps
        return [_Call(by_chief, by_ps, ps, feeds, optional_key) for feeds in chunk.feeds]

    def _restoring_all(self, entries: Sequence[CheckpointEntry]) -> list[_Call]:
        """Returns the calls that restore entries; some for each entry that a checkpoint may lack."""
        groups = [[entry for entry in entries if not entry.optional], *([e] for e in entries if e.optional)]
        return [
            call
            for group in groups
            for chunk in split_into_chunks(group, CHUNK_BYTES)
            for call in self._restoring(chunk, group[0].key if group[0].optional else "")
        ]

    def _restoring(self, chunk: Chunk, optional_key: str) -> list[_Call]:
        keys: Any = [entry.key for entry in chunk.entries]
        may_differ = any(entry.former for entry in chunk.entries)
        if may_differ:
            keys = v1.placeholder_with_default(keys, [len(keys)], "checkpoint_keys")

        def make() -> tf.Operation:
            values = tf.raw_ops.RestoreV2(
                prefix=self._prefix,
                tensor_names=keys,
                shape_and_slices=chunk.specs,
                dtypes=[entry.variable.dtype.base_dtype for entry in chunk.entries],
            )
            return chunk.write(values)

        calls = self._calls(chunk, make, optional_key)
        return [call._replace(keys=keys, entries=chunk.entries) for call in calls] if may_differ else calls

    def find_writers(self, session: v1.Session) -> None:
        """Finds the ps that read and write their own parts of the files: those that see the directory.

        Raises:
          ConfigError: a ps does not see it, and `writers` is "ps".
          tf.errors.OpError: a ps was lost.
        """
        if self._directory_probe is None:
            return
        try:
            found, refused = self._directory_probe.find(beside(session, self._graph), self.directory)
        except OSError as error:  # the next checkpoint reports it
            log.debug("checkpoints: the chief cannot write to %s (%s)", self.directory, cause_of(error))
            found, refused = frozenset(), ""
        if refused and self._writers == "ps":
            raise ConfigError(
                f"checkpoint_writers=ps, but {refused}: share the directory among the chief and all ps, or use "
                "--checkpoint_writers=auto."
            )
        self._own_files = found
        log.debug("checkpoints: %s write their own files", ", ".join(f"ps:{ps}" for ps in sorted(found)) or "no ps")

    def save(
        self,
        session: v1.Session,
        copies: bool = False,
        when_copied: Callable[[], None] = lambda: None,
        around_part: AroundPart = contextlib.nullcontext,
    ) -> int:
        """Writes a checkpoint of the variables' present values and returns its global step.

        Values that other processes change during the write may be newer than that step.

        Args:
          session: the session; the listeners get it.
          copies: write the snapshot instead of the variables.
          when_copied: called when all but the snapshot's tables are written.
          around_part: makes a context in which a part is written, from the index of its ps; -1 for the chief.

        Raises:
          SaveError: the files could not be written.
        """
        began, saves = time.monotonic(), self._saves[copies]
        own = beside(session, self._graph)
        step = int(own.run(saves.step))
        path = path_of(self.directory, step)
        self.listeners.before(session, step)
        try:
            self._write(own, saves, step, when_copied, around_part)
            self.written, self.newest = self.written + 1, step
            log.debug("checkpoint %d is written in %.1fs", step, time.monotonic() - began)
            self._forget_old(step)
        except (tf.errors.OpError, OSError) as error:
            if isinstance(error, PS_LOST_ERRORS):
                raise
            raise SaveError(f"checkpoint {path} could not be written ({cause_of(error)})") from None
        return step

    def _write(
        self, session: v1.Session, saves: _Saves, step: int, when_copied: Callable[[], None], around_part: AroundPart
    ) -> None:
        path = path_of(self.directory, step)
        os.makedirs(self.directory, exist_ok=True)  # the directory may have been removed
        for leftover in glob.glob(glob.escape(os.path.join(self.directory, NAME)) + "-*_temp"):
            shutil.rmtree(leftover, ignore_errors=True)  # from an unfinished save
        feeds = {self._prefix: path, self._step_saved: step, self._run: list(self.run)}
        # A random name: a ps may still write a part for a chief that died during a save of the same step.
        parts = f"_{uuid.uuid4().hex}_temp"
        files = [f"{parts}/part-{number:05}" for number in range(len(saves.copied) + len(saves.tables))]
        if len(files) == 1 and not self._own_files:
            files = [""]
        else:
            os.makedirs(path + parts)
        named = zip([*saves.copied, *saves.tables], files, strict=True)
        calls = [call._replace(feeds={**call.feeds, self._file: file}) for call, file in named]
        self._run_all(session, calls[: len(saves.copied)], feeds, around_part)
        when_copied()
        self._run_all(session, calls[len(saves.copied) :], feeds, around_part)
        if files[0]:
            session.run(self._merge, {self._prefix: path, self._parts: [path + file for file in files]}, CHUNK_CALL)

    def _run_all(
        self,
        session: v1.Session,
        calls: Sequence[_Call],
        feeds: Mapping[Any, Any],
        around: AroundPart = contextlib.nullcontext,
    ) -> None:
        """Makes the calls: those of each ps with its own files in their order, beside those of the chief."""
        by_writer: dict[int, list[_Call]] = {}
        for call in calls:
            by_writer.setdefault(call.ps if call.ps in self._own_files else -1, []).append(call)

        def make(writer: int) -> None:
            for call in by_writer[writer]:
                operation = call.by_chief if writer < 0 else call.by_ps
                with around(writer):
                    session.run(operation, {**feeds, **call.feeds}, CHUNK_CALL)

        run_beside(session, [functools.partial(make, writer) for writer in by_writer])

    def _forget_old(self, step: int) -> None:
        """Removes the run's older checkpoints; those of other runs, and higher numbers, are left alone."""
        everything = checkpoints_in(self.directory)
        if step not in dict(everything):
            raise FileNotFoundError(f"{self.directory} was removed during the save")
        foreign = dict(foreign_checkpoints(self.directory))
        older = [number for number, _ in run_checkpoints(self.directory) if number < step]
        kept = self._rule.after_save([step, *older], self.directory)
        write_list(self.directory, [f"{NAME}-{number}" for number in kept])
        for old in [path for number, path in everything if number < step and number not in {*foreign, *kept}]:
            for file in glob.glob(glob.escape(old) + ".*"):
                os.remove(file)

    def path(self, step: int) -> str:
        """Returns the path of a step's checkpoint."""
        return path_of(self.directory, step)

    def shown_path(self, step: int) -> str:
        """Returns the path of a step's checkpoint as messages name it."""
        return path_of(self.shown_directory, step)

    def restore(self, session: v1.Session, only: Collection[int] | None = None) -> int | None:
        """Restores the newest undamaged checkpoint and returns its step, or None without any.

        Args:
          session: of the graph of the step.
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
                wanted = [one for one in selected if not one.optional_key or one.optional_key in kinds]
                calls = [call.reading(kinds) for call in wanted]
                with glob_free(path) as readable:
                    if readable != path:  # a path of this process alone
                        calls = [call._replace(ps=-1) for call in calls]
                    self._run_all(beside(session, self._graph), calls, {self._prefix: readable})
                if self._after_restore is not None:
                    session.run(self._after_restore, options=CHUNK_CALL)
            except DAMAGED_ERRORS as error:
                damage = damage or f"{os.path.basename(path)} is damaged: {cause_of(error)}"
                if step != found[-1][0]:
                    log.warning(
                        "checkpoint %s is damaged (%s); trying the one before it",
                        self.shown_path(step),
                        cause_of(error),
                    )
                continue
            log.debug("checkpoint %d is restored in %.1fs", step, time.monotonic() - began)
            return step
        if found:
            raise ConfigError(
                f"no checkpoint in {self.shown_directory} can be read ({damage}; {len(found)} in all): restore the "
                "files, use --ignore_checkpoints to start at step 0, or use another --model_dir.",
                page=DamagedCheckpointError.page,
            )
        if foreign := foreign_checkpoints(self.directory):
            raise ConfigError(
                f"{self.shown_path(foreign[0][0])} is of another run than the file run_id in {self.shown_directory} "
                f"says ({len(foreign)} in all): remove run_id to resume from it, use --ignore_checkpoints to start at "
                "step 0, or use another --model_dir."
            )
        return None

    def forget_newer(self, step: int) -> None:
        """Takes steps after a restored one from TensorFlow's list; their files are left alone."""
        forget_lasting_after(self.directory, step)
        found = [number for number, _ in run_checkpoints(self.directory) if number <= step]
        if kept := self._rule.of(found, self.directory):
            write_list(self.directory, [f"{NAME}-{number}" for number in kept])
