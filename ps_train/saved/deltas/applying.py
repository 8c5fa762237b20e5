"""A base and its deltas become the next checkpoint or SavedModel, bit for bit.

    apply_deltas(open_saved("export/1"), ["/deltas/0002", "/deltas/0003"], "export/3")

The base is read once, part by part.  The hashes of what is read and of what is written are compared with those of the
deltas before the result gets its name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ps_train.base.errors import ConfigError, DamagedCheckpointError, one_line
from ps_train.base.untrusted import UntrustedError, path_below
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues, Kind
from ps_train.engine.run_directory.run_checkpoints import write_list
from ps_train.saved.deltas.files import copy_file, graph_hash, new_folder
from ps_train.saved.deltas.manifest import FILES, VALUES, Entry, Manifest, check_chain, described, read_manifest
from ps_train.saved.values import (
    ContentHash,
    RowRun,
    Saved,
    Writer,
    all_parts,
    hash_of,
    read_and_hash,
    spec_of,
)


class Delta:
    """A delta, and its changes by part.

    Args:
      folder: its directory.

    Attributes:
      folder: its directory.

    Raises:
      ConfigError: the directory is not a delta.
      DamagedCheckpointError: its values cannot be read.
    """

    def __init__(self, folder: str) -> None:
        self.folder, self.manifest = folder, read_manifest(folder)
        self._values = CheckpointValues(os.path.abspath(os.path.join(folder, VALUES)))
        self._entries = {(entry.key, entry.begin): entry for entry in self.manifest.entries}

    def next_value(self, part: RowRun, before: Any) -> Any:
        """Returns a part after the delta.

        Args:
          part: a variable, or some of its rows.
          before: its value before; None if it had none of this shape and dtype.

        Raises:
          ConfigError: the delta has nothing for a variable that is new.
          DamagedCheckpointError: its rows are not of this part.
        """
        entry = self._entries.get((part.key, part.begin))
        if entry is None:
            if before is None:
                raise ConfigError(f"{self.folder} is damaged: it has no value for {part.key}; make the delta again.")
            return before
        values = self._read("values", entry)
        if entry.whole or before is None:
            return values
        after = before.copy()
        try:
            after[self._read("rows", entry)] = values
        except (IndexError, ValueError) as error:
            raise DamagedCheckpointError(f"{self.folder} is damaged ({one_line(error)}).") from None
        return after

    def file(self, name: str) -> str:
        """Returns the path of a changed file of a SavedModel.

        Raises:
          DamagedCheckpointError: it is a link that leads out of the delta.
        """
        try:
            return path_below(os.path.join(self.folder, FILES), name)
        except UntrustedError as error:
            raise DamagedCheckpointError(f"{self.folder} is damaged: {error}.") from None

    def _read(self, name: str, entry: Entry) -> Any:
        key = f"{name}/{entry.number}"
        if key not in self._values.kinds:
            raise ConfigError(f"{self.folder} is damaged: it has no {key}; make the delta again.")
        return self._values.read(key)


def apply_deltas(base: Saved, folders: Sequence[str], target: str) -> Saved:
    """Writes what a base becomes by deltas.

    Args:
      base: a checkpoint or SavedModel.
      folders: directories of the deltas, in their order.
      target: new directory of the result.

    Returns:
      The result.

    Raises:
      ConfigError: a delta is missing, given twice, in another place or of another model, or the directory is there.
      DamagedCheckpointError: a file is damaged.
    """
    deltas = [Delta(folder) for folder in folders]
    manifests = [delta.manifest for delta in deltas]
    check_chain(manifests, folders)
    first, last = manifests[0], manifests[-1]
    if bool(base.folder) != first.saved_model:
        kinds = ("a checkpoint", "a SavedModel")
        raise ConfigError(
            f"{base.path} is {kinds[bool(base.folder)]}, and {folders[0]} leads from {kinds[first.saved_model]}."
        )
    if (graph := graph_hash(base)) != first.base.graph:
        is_known = any(graph in (one.base.graph, one.next.graph) for one in manifests)
        raise _foreign(base, base.hash() if is_known else "", manifests, folders)
    with new_folder(target, "--to") as unfinished:
        prefix = os.path.join(unfinished, *(["variables"] if base.folder else []), last.next.name)
        os.makedirs(os.path.dirname(prefix), exist_ok=True)
        files = base.file_hashes()
        found, made = ContentHash(base.values.kinds, files), ContentHash(last.kinds, last.files)
        _write_values(base, deltas, Writer(prefix), found, made)
        if found.text() != first.base.hash:
            raise _foreign(base, found.text(), manifests, folders)
        if made.text() != last.next.hash:
            raise DamagedCheckpointError(f"{folders[-1]} or a delta before it is damaged: the result has another hash.")
        _write_files(base, deltas, unfinished)
        if not base.folder:
            write_list(unfinished, [last.next.name])
    folder = os.path.abspath(target)
    inside = os.path.join(folder, "variables") if base.folder else folder
    values = CheckpointValues(os.path.join(inside, last.next.name))
    return Saved(target, values, folder, tuple(last.files)) if base.folder else Saved(target, values)


def _write_values(base: Saved, deltas: Sequence[Delta], writer: Writer, found: ContentHash, made: ContentHash) -> None:
    """Writes all variables; takes the hashes of what is read and of what is written."""
    last: Mapping[str, Kind] = deltas[-1].manifest.kinds
    work = [(part, False) for part in all_parts(base.values.kinds, list(base.values.kinds))]
    work += [(part, True) for part in all_parts(last, [key for key in last if last[key] != base.values.kinds.get(key)])]
    with ThreadPoolExecutor(2) as pool:

        def begin(number: int) -> Future[Any] | None:
            if number == len(work) or work[number][1]:
                return None
            return pool.submit(read_and_hash, base.values, work[number][0])

        ahead = begin(0)
        for number, (part, is_new) in enumerate(work):
            array, digest = ahead.result() if ahead is not None else (None, b"")
            ahead = begin(number + 1)
            if not is_new:
                found.add(part, digest)
                if last.get(part.key) != base.values.kinds[part.key]:
                    continue  # it is gone, or has another shape
            after = _after(deltas, part, array, base.values.kinds)
            made.add(part, digest if after is array else hash_of(after))
            writer.add(part.key, after, spec_of(part, last[part.key]))
    writer.close()


def _after(deltas: Sequence[Delta], part: RowRun, array: Any, kinds: Mapping[str, Kind]) -> Any:
    """Returns a part after all deltas; on the way its variable may go, come back, or have other shapes."""
    kind, wanted = kinds.get(part.key), deltas[-1].manifest.kinds[part.key]
    for delta in deltas:
        after = delta.manifest.kinds.get(part.key)
        if after is None or after != wanted:
            array, kind = None, after
            continue
        array = delta.next_value(part, array if kind == after else None)
        kind = after
    return array


def _write_files(base: Saved, deltas: Sequence[Delta], folder: str) -> None:
    """Copies the other files of a SavedModel: each from the last delta that has it, or from the base."""
    for name, digest in deltas[-1].manifest.files.items():
        sources = [delta.file(name) for delta in deltas if name in delta.manifest.changed_files]
        copy_file(sources[-1] if sources else os.path.join(base.folder, name), folder, name, digest)


def _foreign(base: Saved, found: str, manifests: Sequence[Manifest], folders: Sequence[str]) -> ConfigError:
    """Returns the error for a base from which the first delta does not lead."""
    has = [folder for folder, one in zip(folders, manifests, strict=True) if one.next.hash == found]
    if has:
        return ConfigError(f"{base.path} is what {has[-1]} leads to: leave out the deltas up to it.")
    other = [folder for folder, one in zip(folders, manifests, strict=True) if one.base.hash == found]
    if other:
        return ConfigError(f"{base.path} is the base of {other[0]}, not of {folders[0]}: leave out those before it.")
    return ConfigError(
        f"{folders[0]} leads from {described(manifests[0].base)}, and {base.path} is another content"
        + (f" (hash {found[:12]})" if found else ": its graph is another one")
        + "; a delta before it is missing, or it is of another training."
    )
