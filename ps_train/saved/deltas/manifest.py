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

from ps_train.base.errors import ConfigError, DamagedCheckpointError, shown
from ps_train.base.untrusted import (
    UntrustedError,
    as_record,
    file_name,
    inner_path,
    is_of,
    parse_json,
    read_text,
    sealed,
    unsealed,
)
from ps_train.engine.run_directory.checkpoint_contents import Kind
from ps_train.saved.values import VARIABLES

FILE, VALUES, FILES = "delta.json", "values", "files"
"""Names in the directory of a delta: the manifest, the checkpoint with the rows, the changed files of a SavedModel."""

FORMAT = 3
_UNSEALED = 2
"""The format of deltas of earlier versions, which have no hash of the manifest and no time."""

_MOST_BYTES = 1 << 28


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
class VocabularyChange:
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
      made: time at which it was made, in seconds since 1970; 0 if it is not known.
    """

    base: End
    next: End
    saved_model: bool
    kinds: Mapping[str, Kind]
    entries: Sequence[Entry]
    files: Mapping[str, str]
    changed_files: Sequence[str]
    vocabularies: Mapping[str, VocabularyChange]
    made: float = 0.0

    def __post_init__(self) -> None:
        """Checks the names, which become paths.

        Raises:
          UntrustedError: one leads out of its directory, or to the variables of a SavedModel.
        """
        file_name(self.next.name)
        if self.saved_model and self.next.name != VARIABLES:
            raise UntrustedError(f"the variables of a SavedModel are in {VARIABLES}, not in {shown(self.next.name)}")
        for name in (*self.files, *self.changed_files):
            inner_path(name)
            if os.path.dirname(name) == VARIABLES:
                raise UntrustedError(f"{shown(name)} is a file of variables")
        if unknown := sorted(set(self.changed_files) - self.files.keys()):
            raise UntrustedError(f"it has no hash of {shown(unknown[0])}")

    def write(self, folder: str) -> None:
        """Writes the manifest."""
        found = dataclasses.asdict(self)
        found["kinds"] = {key: [shape, dtype.name] for key, (shape, dtype) in self.kinds.items()}
        with open(os.path.join(folder, FILE), "w") as file:
            json.dump(sealed({"format": FORMAT, **found}), file, indent=1)


def read_manifest(folder: str) -> Manifest:
    """Reads the manifest of a delta.

    Raises:
      ConfigError: the directory is not a delta, or one of another version.
      DamagedCheckpointError: its contents do not have its hash.
    """
    path = os.path.join(folder, FILE)
    try:
        found = parse_json(read_text(path, _MOST_BYTES), _MOST_BYTES)
        if not isinstance(found, dict) or found.get("format") not in (FORMAT, _UNSEALED):
            raise ConfigError(f"{folder} is not a delta of this version of ps_train: make it again.")
        if found["format"] == FORMAT:
            found = _unsealed(path, found)
        found = {"made": 0.0, **{name: value for name, value in found.items() if name != "format"}}
        for name, form in _FORMS.items():
            if not is_of(form, found.get(name)):
                raise UntrustedError(f"its field {name} is {shown(found.get(name))} and not of the type {form}")
        ends = {name: as_record(End, found[name]) for name in ("base", "next")}
        kinds = {key: _kind(kind) for key, kind in found["kinds"].items()}
        entries = [_entry(as_record(Entry, entry)) for entry in found["entries"]]
        vocabularies = {name: as_record(VocabularyChange, one) for name, one in found["vocabularies"].items()}
        return Manifest(**{**found, **ends, "kinds": kinds, "entries": entries, "vocabularies": vocabularies})
    except OSError as error:
        raise ConfigError(f"{folder} is not a delta: {path}: {error.strerror}.") from None
    except (ValueError, TypeError) as error:  # of UntrustedError, of unknown fields and dtypes
        raise ConfigError(f"{path} is damaged ({error}): make the delta again.") from None


_FORMS = {
    "base": "dict",
    "next": "dict",
    "saved_model": "bool",
    "kinds": "dict[str, list]",
    "entries": "list[dict]",
    "files": "dict[str, str]",
    "changed_files": "list[str]",
    "vocabularies": "dict[str, dict]",
    "made": "float",
}


def _unsealed(path: str, found: dict[str, Any]) -> dict[str, Any]:
    try:
        return unsealed(found)
    except UntrustedError as error:
        raise DamagedCheckpointError(f"{path} is damaged ({error}): make the delta again.") from None


def _kind(found: Any) -> Kind:
    if len(found) != 2 or not is_of("list[int]", found[0]) or min(found[0], default=0) < 0:
        raise UntrustedError(f"{shown(found)} is not a shape and a dtype")
    return found[0], tf.as_dtype(found[1])


def _entry(entry: Entry) -> Entry:
    bytes.fromhex(entry.hash)  # ValueError if it is damaged
    return entry


def check_chain(manifests: Sequence[Manifest], names: Sequence[str]) -> None:
    """Checks that each delta leads from what the one before it leads to.

    Raises:
      ConfigError: one is missing, given twice, in another place, or of another model.
    """
    for (one, before), (other, after) in itertools.pairwise(zip(names, manifests, strict=True)):
        if before.next.hash == after.base.hash:
            continue
        _check_once(manifests, names)
        fitting = [name for name, some in zip(names, manifests, strict=True) if some.base.hash == before.next.hash]
        if fitting:
            raise ConfigError(f"after {one} comes {fitting[0]}, not {other}: give the deltas in the order of time.")
        if before.saved_model != after.saved_model:
            raise ConfigError(f"{one} and {other} are not of the same kind: one is of SavedModels, one of checkpoints.")
        raise ConfigError(
            f"{other} does not follow {one}: it begins at {described(after.base)}, and {one} ends at "
            f"{described(before.next)}; a delta is missing between them, or they are of different trainings."
        )


def _check_once(manifests: Sequence[Manifest], names: Sequence[str]) -> None:
    """Raises ConfigError for a delta that is given twice, which is right only where the deltas lead back to it."""
    for number, (one, manifest) in enumerate(zip(names, manifests, strict=True)):
        for other, before in zip(names[:number], manifests[:number], strict=True):
            if (before.base.hash, before.next.hash) == (manifest.base.hash, manifest.next.hash):
                raise ConfigError(f"{one} is given twice" + ("." if one == other else f": {other} is the same delta."))


def described(end: End) -> str:
    """Returns an end in words."""
    return (f"step {end.global_step}, " if end.global_step >= 0 else "") + f"hash {end.hash[:12]}"
