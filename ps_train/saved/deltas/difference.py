"""The difference of two checkpoints, or of two SavedModels, as a delta.

    manifest = make_delta(open_saved("export/1"), open_saved("export/2"), "/deltas/0002")

Both are read in parts, and two threads read and hash them.  A part of which most rows have changed is stored whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.base.untrusted import UntrustedError
from ps_train.engine.run_directory.checkpoint_contents import GLOBAL_STEP, CheckpointValues, row_runs
from ps_train.modeling.tables.vocabulary_index import KEYS, UPDATE_COUNT, USED
from ps_train.saved.deltas.files import copy_file, graph_hash, new_folder
from ps_train.saved.deltas.manifest import FILES, VALUES, End, Entry, Manifest, VocabularyChange
from ps_train.saved.values import (
    ContentHash,
    RowRun,
    Saved,
    Writer,
    all_parts,
    hash_of,
    read_and_hash,
)

_MOST_ROWS = 0.5
"""Share of changed rows from which a part is stored whole."""


class EqualError(ConfigError):
    """Two contents that a delta should lead between are one."""

    page = "serve#deltas"


def make_delta(old: Saved, new: Saved, folder: str, base_hash: str = "") -> Manifest:
    """Writes the delta that leads from one to the other.

    Args:
      old: what it leads from.
      new: what it leads to.
      folder: new directory of the delta.
      base_hash: hash that `old` must have; "" for any.

    Raises:
      EqualError: both have the same content.
      ConfigError: one is a checkpoint and the other a SavedModel, they have no variable in common, or the directory is
        there already.
      DamagedCheckpointError: a file is damaged.
    """
    if bool(old.folder) != bool(new.folder):
        one, other = (old, new) if old.folder else (new, old)
        raise ConfigError(f"{one.path} is a SavedModel and {other.path} a checkpoint: give two of one kind.")
    kinds, others = new.values.kinds, old.values.kinds
    if others.keys() - {GLOBAL_STEP} and not any(others.get(key) == kinds[key] for key in kinds if key != GLOBAL_STEP):
        raise ConfigError(
            f"{old.path} and {new.path} are of different models: no variable has the same name and shape in both; "
            "copy the new one as a whole."
        )
    with new_folder(folder, "--to") as unfinished:
        difference = _Difference(old, new, Writer(os.path.join(unfinished, VALUES)))
        manifest = difference.write()
        if base_hash and manifest.base.hash != base_hash:
            raise DamagedCheckpointError(
                f"{old.path} is damaged: it has another hash than the delta before it leads to."
            )
        if manifest.base.hash == manifest.next.hash:
            raise EqualError(f"{old.path} and {new.path} are equal, bit for bit: there is no delta to write.")
        for name in manifest.changed_files:
            source = os.path.join(new.folder, name)
            copy_file(source, os.path.join(unfinished, FILES), name, manifest.files[name])
        manifest.write(unfinished)
    return manifest


class _Difference:
    """The difference of two saved contents, while it is written."""

    def __init__(self, old: Saved, new: Saved, writer: Writer) -> None:
        self._old, self._new, self._writer = old, new, writer
        self._old_files, self._new_files = old.file_hashes(), new.file_hashes()
        self._old_hash = ContentHash(old.values.kinds, self._old_files)
        self._new_hash = ContentHash(new.values.kinds, self._new_files)
        self._entries: list[Entry] = []

    def write(self) -> Manifest:
        for part, before, after, digest in self._pairs():
            if after is not None:
                self._add(part, before, after, digest)
        vocabularies = {table: self._vocabulary(table) for table in _tables(self._new.values)}
        self._writer.close()
        changed = [name for name, found in self._new_files.items() if self._old_files.get(name) != found]
        try:
            return Manifest(
                _end(self._old, self._old_hash),
                _end(self._new, self._new_hash),
                bool(self._new.folder),
                self._new.values.kinds,
                self._entries,
                self._new_files,
                changed,
                vocabularies,
                time.time(),
            )
        except UntrustedError as error:
            raise ConfigError(f"{self._new.path} cannot be the end of a delta: {error}.") from None

    def _pairs(self) -> Iterator[tuple[RowRun, Any, Any, bytes]]:
        """Gives each part with its old and new value, None where there is none to compare, and the new one's hash."""
        old, new = self._old.values, self._new.values
        same = [key for key in new.kinds if old.kinds.get(key) == new.kinds[key]]
        work = [(part, True, True) for part in all_parts(new.kinds, same)]
        work += [(part, True, False) for part in all_parts(old.kinds, [key for key in old.kinds if key not in same])]
        work += [(part, False, True) for part in all_parts(new.kinds, [key for key in new.kinds if key not in same])]
        with ThreadPoolExecutor(2) as pool:

            def begin(part: RowRun, of_old: bool, of_new: bool) -> list[Future[Any] | None]:
                sides = ((of_old, old, self._old_hash), (of_new, new, self._new_hash))
                return [pool.submit(read_and_hash, values, part) if wanted else None for wanted, values, _ in sides]

            ahead = begin(*work[0]) if work else []
            for number, (part, _, _) in enumerate(work):
                futures, ahead = ahead, begin(*work[number + 1]) if number + 1 < len(work) else []
                found = [future.result() if future is not None else (None, b"") for future in futures]
                for (_, digest), content in zip(found, (self._old_hash, self._new_hash), strict=True):
                    if digest:
                        content.add(part, digest)
                yield part, found[0][0], *found[1]

    def _add(self, part: RowRun, before: Any, after: Any, digest: bytes) -> None:
        """Adds what has changed in a part."""
        number = len(self._entries)
        if before is None or not after.ndim or not after.size:
            rows = None if before is None or hash_of(before) != hash_of(after) else ()
        else:
            rows = _changed_rows(before, after)
        if rows is not None and not len(rows):
            return
        count = (len(after) if after.ndim else 1) if rows is None else len(rows)
        is_whole = rows is None or count > _MOST_ROWS * len(after)
        self._entries.append(Entry(part.key, part.begin, count, is_whole, number, digest.hex()))
        if not is_whole:
            self._writer.add(f"rows/{number}", rows)
        self._writer.add(f"values/{number}", after if is_whole else after[rows])

    def _vocabulary(self, table: str) -> VocabularyChange:
        """Compares the ids of an open vocabulary if any has changed, and stores those that have gone."""
        keys, used = f"{table}/{KEYS}", f"{table}/{USED}"
        width = self._new.values.kinds[keys][0][1]
        if any(self._old.values.kinds.get(key) != self._new.values.kinds[key] for key in (keys, used)):
            return VocabularyChange(-1, -1)
        gone, came = [np.zeros([0, width], np.int64)], [np.zeros([0, width], np.int64)]
        changed = any(entry.key in (keys, used) for entry in self._entries)
        # The rows of a part of the keys are not those of a part of the use counts.
        rows = self._new.values.kinds[keys][0][0]
        parts = all_parts(self._new.values.kinds, [keys, used])
        step = max(1, min(part.rows if part.rows > 0 else rows for part in parts))
        for begin, count in row_runs(rows, step) if changed else ():
            old_keys, old_used = (self._old.values.read(key, begin, count) for key in (keys, used))
            new_keys, new_used = (self._new.values.read(key, begin, count) for key in (keys, used))
            had, has = old_used[:, 0] > 0, new_used[:, 0] > 0
            other = (old_keys != new_keys).any(1) | (had != has)
            gone.append(old_keys[other & had])
            came.append(new_keys[other & has])
        old_ids, new_ids = np.concatenate(gone), np.concatenate(came)
        removed = old_ids[~_contained(old_ids, new_ids)]
        self._writer.add(f"removed/{table}", removed)
        return VocabularyChange(int((~_contained(new_ids, old_ids)).sum()), len(removed))


def _tables(values: CheckpointValues) -> list[str]:
    """Returns the names of the open vocabularies."""
    names = {key.removesuffix(f"/{KEYS}") for key in values.kinds if key.endswith(f"/{KEYS}")}
    return sorted(name for name in names if {f"{name}/{USED}", f"{name}/{UPDATE_COUNT}"} <= values.kinds.keys())


def _contained(some: Any, others: Any) -> Any:
    """Returns for each row of the first array if it is in the second one, bool [n]."""
    if not len(some) or not len(others):
        return np.zeros(len(some), bool)
    keys, known = (np.ascontiguousarray(one).view(f"V{8 * one.shape[1]}").ravel() for one in (some, others))
    return np.isin(keys, known)


def _end(saved: Saved, content: ContentHash) -> End:
    return End(content.text(), saved.values.global_step, graph_hash(saved), saved.name)


def _changed_rows(old: Any, new: Any) -> Any:
    """Returns the numbers of the rows that differ in a bit, int64 [n]."""
    if old.dtype == object:
        return np.flatnonzero((old != new).reshape(len(old), -1).any(1))
    return np.flatnonzero((_words(old) != _words(new)).any(1))


def _words(array: Any) -> Any:
    """Returns the rows of an array as integers of the same bits, [rows, n]: equal rows are equal in every bit."""
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    size = rows.shape[1] * rows.itemsize
    width = next(width for width in (8, 4, 2, 1) if size % width == 0)
    return rows.view(np.dtype(f"u{width}")) if size else np.zeros([len(array), 0], np.uint8)
