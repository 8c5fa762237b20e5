"""A checkpoint or SavedModel: its values in parts, and the hash of its content.

    saved = open_saved("/models/run1/export/3")         # a SavedModel, a checkpoint, or a directory of checkpoints
    for part in all_parts(saved.values.kinds, ["users"]):
        saved.values.read(*part)                        # numpy [rows, ...]

The hash of the content is that of each variable's name, dtype and shape, of its parts, and of the other files of a
SavedModel.  It does not depend on the layout of the files, nor on the number of ps that wrote them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.base.untrusted import UntrustedError
from ps_train.engine.run_directory.checkpoint_contents import (
    CHUNK_BYTES,
    SLICED_DTYPES,
    CheckpointValues,
    Kind,
    row_runs,
)
from ps_train.engine.run_directory.glob_free import files_of_first_format
from ps_train.engine.run_directory.run_checkpoints import checkpoints_in, newest_checkpoint
from ps_train.engine.variables.variables import rows_spec

SAVED_MODEL = "saved_model.pb"
VARIABLES = "variables"
"""Directory of the variables of a SavedModel, and the base name of their files."""

_READ_BYTES = 1 << 20


class RowRun(NamedTuple):
    """A run of rows of a variable.

    Attributes:
      key: name of the variable.
      begin: its first row.
      rows: number of rows; -1 for the whole of a variable that has no rows, or is small.
    """

    key: str
    begin: int
    rows: int


@dataclasses.dataclass(frozen=True)
class Saved:
    """A checkpoint or a SavedModel.

    Attributes:
      path: as the user gave it.
      values: its variables.
      folder: directory of the SavedModel; "" for a checkpoint.
      files: names of the other files of a SavedModel, relative to the folder.
    """

    path: str
    values: CheckpointValues
    folder: str = ""
    files: tuple[str, ...] = ()

    def file_hashes(self) -> dict[str, str]:
        """Returns the SHA-256 of each other file.

        Raises:
          ConfigError: one is not a regular file.
        """
        try:
            return {name: hash_of_file(os.path.join(self.folder, name)) for name in self.files}
        except UntrustedError as error:
            raise ConfigError(f"{self.path} cannot be read: {error}.") from None

    def hash(self) -> str:
        """Returns the hash of the whole content."""
        return hash_of_values(self.values, self.file_hashes())

    @property
    def name(self) -> str:
        """The base name of its variables' files."""
        return os.path.basename(self.values.path)


def open_saved(path: str) -> Saved:
    """Opens a checkpoint, the newest checkpoint of a directory, or a SavedModel.

    Raises:
      ConfigError: there is none.
      DamagedCheckpointError: it cannot be read.
    """
    folder = os.path.abspath(path)
    if os.path.isfile(os.path.join(folder, SAVED_MODEL)):
        names = [
            os.path.relpath(os.path.join(inner, name), folder) for inner, _, names in os.walk(folder) for name in names
        ]
        others = sorted(name for name in names if os.path.dirname(name) != VARIABLES)
        return Saved(path, CheckpointValues(os.path.join(folder, VARIABLES, VARIABLES)), folder, tuple(others))
    if os.path.isdir(folder):
        newest = newest_checkpoint(folder)
        if newest is None and checkpoints_in(folder):
            raise ConfigError(f"no checkpoint in {path} can be read: all are damaged, or of another run.")
        if newest is None:
            raise ConfigError(f"{path} has neither a checkpoint nor {SAVED_MODEL}.")
        return Saved(path, CheckpointValues(newest))
    if os.path.isfile(folder + ".index"):
        return Saved(path, CheckpointValues(folder))
    try:
        if files_of_first_format(folder):
            return Saved(path, CheckpointValues(folder))
    except DamagedCheckpointError:
        pass  # it is another file
    raise ConfigError(f"{path} is neither a checkpoint nor a SavedModel: there is no file {folder}.index.")


class ContentHash:
    """The hash of a content, from its parts in the order of names; each value is hashed once.

    Args:
      kinds: name to shape and dtype, of all variables.
      files: name to hash, of all other files.
    """

    def __init__(self, kinds: Mapping[str, Kind], files: Mapping[str, str]) -> None:
        self._kinds, self._files = kinds, files
        self._parts: dict[str, list[bytes]] = {key: [] for key in kinds}

    def add(self, part: RowRun, digest: bytes) -> None:
        """Takes the hash of a part; those of one variable in the order of rows."""
        self._parts[part.key].append(digest)

    def text(self) -> str:
        """Returns the hash in hexadecimal."""
        whole = hashlib.sha256()
        for key in sorted(self._kinds):
            shape, dtype = self._kinds[key]
            whole.update(f"{key}\n{dtype.name}\n{shape}\n".encode() + b"".join(self._parts[key]))
        for name in sorted(self._files):
            whole.update(f"{name}\n{self._files[name]}\n".encode())
        return whole.hexdigest()


def hash_of_values(values: CheckpointValues, files: Mapping[str, str]) -> str:
    """Returns the hash of a content; without files it is that of the variables, as a fingerprint has it.

    Args:
      values: the variables.
      files: name to hash, of all other files.
    """
    content = ContentHash(values.kinds, files)
    for part in all_parts(values.kinds, list(values.kinds)):
        content.add(part, read_and_hash(values, part)[1])
    return content.text()


def read_and_hash(values: CheckpointValues, part: RowRun) -> tuple[Any, bytes]:
    """Returns a part, and its hash."""
    array = values.read(*part)
    return array, hash_of(array)


def hash_of(array: Any) -> bytes:
    """Returns the SHA-256 of a part."""
    if array.dtype == object:  # strings
        digest = hashlib.sha256()
        for text in np.ravel(array):
            digest.update(len(text).to_bytes(8, "little") + text)
        return digest.digest()
    return hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).data if array.ndim else array.tobytes()).digest()


def parts_of(key: str, kind: Kind) -> list[RowRun]:
    """Returns the parts of a variable: the same ones wherever it has this shape and dtype; each has at least a row."""
    shape, dtype = kind
    size = math.prod(shape) * dtype.size
    if not shape or size <= CHUNK_BYTES or dtype not in SLICED_DTYPES:
        return [RowRun(key, 0, -1)]
    most = max(1, CHUNK_BYTES * shape[0] // size)
    return [RowRun(key, begin, count) for begin, count in row_runs(shape[0], most)]


def spec_of(part: RowRun, kind: Kind) -> str:
    """Returns the place of a part in its variable, as `Writer.add` takes it."""
    return "" if part.rows < 0 else rows_spec(kind[0], part.begin, part.rows)


class Writer:
    """Writes a checkpoint part by part; it is there, complete, after `close`.

    One without values has the key `nothing`, since TensorFlow writes no file without keys.

    Args:
      prefix: path of the checkpoint.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix, self._folder = prefix, f"{prefix}_{uuid.uuid4().hex}_temp"
        self._files: list[str] = []
        self._held: list[tuple[str, str, Any]] = []
        self._bytes = 0
        os.makedirs(self._folder)

    def add(self, key: str, array: Any, spec: str = "") -> None:
        """Adds a value, or with `spec` a part of one; the array must stay as it is until `close`."""
        self._held.append((key, spec, array))
        self._bytes += array.nbytes
        if self._bytes >= CHUNK_BYTES or any(key == held for held, _, _ in self._held[:-1]):
            self._flush()

    def close(self) -> None:
        """Writes what is left, and the index."""
        if self._held or not self._files:
            self._flush()
        with _local_session() as session:
            session.run(
                tf.raw_ops.MergeV2Checkpoints(
                    checkpoint_prefixes=self._files, destination_prefix=self._prefix, delete_old_dirs=True
                )
            )

    def _flush(self) -> None:
        file = os.path.join(self._folder, f"part-{len(self._files):05}")
        keys, specs, arrays = zip(*(self._held or [("nothing", "", np.int64(0))]), strict=True)
        with _local_session() as session:
            tensors = [v1.placeholder(array.dtype, array.shape) for array in arrays]
            save = tf.raw_ops.SaveV2(prefix=file, tensor_names=keys, shape_and_slices=specs, tensors=tensors)
            session.run(save, dict(zip(tensors, arrays, strict=True)))
        self._files.append(file)
        self._held, self._bytes = [], 0


@contextlib.contextmanager
def _local_session() -> Iterator[v1.Session]:
    """Gives a session of a graph of its own, which works also where eager execution is disabled."""
    with tf.Graph().as_default(), tf.device("/device:CPU:0"), v1.Session() as session:
        yield session


def hash_of_file(path: str) -> str:
    """Returns the SHA-256 of a file.

    Raises:
      UntrustedError: it is a directory, pipe or device.
    """
    digest = hashlib.sha256()
    if not os.path.isfile(path) and os.path.exists(path):  # opening a pipe would wait for ever
        raise UntrustedError(f"{path} is not a regular file")
    with open(path, "rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def all_parts(kinds: Mapping[str, Kind], keys: Sequence[str]) -> list[RowRun]:
    """Returns the parts of variables, in the order of their names."""
    return [part for key in sorted(keys) for part in parts_of(key, kinds[key])]
