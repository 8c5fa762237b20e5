"""The manifest of a delta, and the order of a chain of deltas.

    manifest = read_manifest("/deltas/0002")
    check_chain([manifest, ...], names)

It is `delta.json`; the rows are in a checkpoint of TensorFlow's format beside it, `values`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.engine.checkpoint.contents import Kind

FILE, VALUES, FILES = "delta.json", "values", "files"
"""Names in the directory of a delta: the manifest, the checkpoint with the rows, the changed files of a SavedModel."""

FORMAT = 2


@dataclasses.dataclass(frozen=True)
class End:
    """The content that a delta leads from, or to.

    Attributes:
      hash: of the whole content.
      global_step: its global step; -1 if it has none.
      graph: fingerprint of the graph.
      name: base name of the files of its variables.
    """

    hash: str
    global_step: int
    graph: str
    name: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """A change of a part of a variable.

    Attributes:
      key: name of the variable.
      begin: first row of the part.
      rows: number of rows that have changed; 1 for a scalar.
      whole: the delta has the whole part, not these rows alone.
      number: the rows' numbers are `rows/NUMBER` among the values of the delta, and the values `values/NUMBER`.
      hash: SHA-256 of the whole part after the delta, in hexadecimal.
    """

    key: str
    begin: int
    rows: int
    whole: bool
    number: int
    hash: str


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The change of an open vocabulary.

    Attributes:
      added: number of ids that have a row now and had none.
      removed: number of ids that had a row and have none now; their keys are `removed/TABLE` among the values.
    """

    added: int
    removed: int


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The manifest of a delta.

    Attributes:
      base: what it leads from.
      next: what it leads to.
      saved_model: True for SavedModels, False for checkpoints.
      kinds: name to shape and dtype of each variable after it.
      entries: the changes.
      files: name to hash of each other file of a SavedModel after it.
      changed_files: names of those that are in the delta.
      vocabularies: name of a table to the changes of its ids.
    """

    base: End
    next: End
    saved_model: bool
    kinds: Mapping[str, Kind]
    entries: Sequence[Entry]
    files: Mapping[str, str]
    changed_files: Sequence[str]
    vocabularies: Mapping[str, Vocabulary]

    def write(self, folder: str) -> None:
        """Writes the manifest."""
        found = dataclasses.asdict(self)
        found["kinds"] = {key: [shape, dtype.name] for key, (shape, dtype) in self.kinds.items()}
        with open(os.path.join(folder, FILE), "w") as file:
            json.dump({"format": FORMAT, **found}, file, indent=1)


def read_manifest(folder: str) -> Manifest:
    """Reads the manifest of a delta.

    Raises:
      ConfigError: the directory is not a delta, or one of another version.
    """
    path = os.path.join(folder, FILE)
    try:
        with open(path) as file:
            found: dict[str, Any] = json.load(file)
        if found.pop("format") != FORMAT:
            raise ConfigError(f"{folder} is a delta of another version of ps_train: make it again.")
        return Manifest(
            End(**found["base"]),
            End(**found["next"]),
            bool(found["saved_model"]),
            {key: (list(shape), tf.as_dtype(dtype)) for key, (shape, dtype) in found["kinds"].items()},
            [_entry(entry) for entry in found["entries"]],
            dict(found["files"]),
            list(found["changed_files"]),
            {name: Vocabulary(**some) for name, some in found["vocabularies"].items()},
        )
    except OSError as error:
        raise ConfigError(f"{folder} is not a delta: {path}: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{path} is damaged ({type(error).__name__}: {error}): make the delta again.") from None


def _entry(found: Mapping[str, Any]) -> Entry:
    entry = Entry(**found)
    bytes.fromhex(entry.hash)  # ValueError if it is damaged
    return entry


def check_chain(manifests: Sequence[Manifest], names: Sequence[str]) -> None:
    """Checks that each delta leads from what the one before it leads to.

    Raises:
      ConfigError: one is missing, given twice, in another place, or of another model.
    """
    for number, (one, manifest) in enumerate(zip(names, manifests, strict=True)):
        for other, before in zip(names[:number], manifests[:number], strict=True):
            if (before.base.hash, before.next.hash) == (manifest.base.hash, manifest.next.hash):
                raise ConfigError(f"{one} is given twice" + ("." if one == other else f": {other} is the same delta."))
    for (one, before), (other, after) in itertools.pairwise(zip(names, manifests, strict=True)):
        if before.next.hash == after.base.hash:
            continue
        fitting = [name for name, some in zip(names, manifests, strict=True) if some.base.hash == before.next.hash]
        if fitting:
            raise ConfigError(f"after {one} comes {fitting[0]}, not {other}: give the deltas in the order of time.")
        if before.saved_model != after.saved_model:
            raise ConfigError(f"{one} and {other} are not of the same kind: one is of SavedModels, one of checkpoints.")
        raise ConfigError(
            f"{other} does not follow {one}: it begins at {described(after.base)}, and {one} ends at "
            f"{described(before.next)}; a delta is missing between them, or they are of different trainings."
        )


def described(end: End) -> str:
    """Returns an end in words."""
    return (f"step {end.global_step}, " if end.global_step >= 0 else "") + f"hash {end.hash[:12]}"
