"""A served model that follows a directory of a base and its deltas, as `python -m ps_train delta` makes them.

    with load("/models/run1") as model:             # applies the deltas there, and later those that appear
        model.predict({"user": users})["probabilities"]

With `load("/runs/1/deltas", export="/runs/1/export")` the deltas are those of a run's checkpoints: the graph is that of
an export, and its variables get the values of the checkpoint, where they have the same names.

A delta is verified before it is used.  It has the hash of each part that it changes.  With those of the other parts
they must give the hash that the delta leads to, and the present values with its rows must have them.  So the slots of
optimizers, which are not served, need not be read.  Then the rows are assigned in place, while no prediction runs: a
prediction sees the values before or after a delta.  Memory is that of one model, of the changed rows up to 64 MiB, and
of a part of 32 MiB.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, DamagedCheckpointError, PsTrainError, headline
from ps_train.base.whole_file import NEW
from ps_train.config.paths import check_local
from ps_train.engine.run_directory.checkpoint_contents import Kind
from ps_train.engine.run_directory.run_checkpoints import LIST
from ps_train.engine.run_directory.run_files import DELTAS
from ps_train.saved.deltas.applying import Delta
from ps_train.saved.deltas.chain import BASE
from ps_train.saved.deltas.files import has_hash
from ps_train.saved.deltas.manifest import FILE as MANIFEST
from ps_train.saved.deltas.manifest import FILES, described, read_manifest
from ps_train.saved.deltas.way import Link, way
from ps_train.saved.export.fingerprint import FILE as FINGERPRINT
from ps_train.saved.export.fingerprint import graph_fingerprint, read_fingerprint
from ps_train.saved.serving.exported import SAVED_MODEL, Exported, path_of_export
from ps_train.saved.serving.feature_values import Array
from ps_train.saved.values import ContentHash, RowRun, all_parts, hash_of, open_saved, read_and_hash

log = logging.getLogger(__name__)

_KEPT_BYTES = 64 << 20
"""Changed rows that are kept in memory between their check and their assignment; others are read again."""

_OF_TENSORFLOW = "fingerprint.pb"
_DEPTH = 2


class SharedLock:
    """A lock that many readers, or one writer, hold; a waiting writer goes before new readers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers, self._is_writing, self._waiting = 0, False, 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Holds the lock as a reader."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing and not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock as the writer."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._is_writing and not self._readers)
            self._waiting -= 1
            self._is_writing = True
        try:
            yield
        finally:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()


class Served:
    """A model that follows a directory; use `load`.

    Attributes:
      features: as those of `Exported`.
      outputs: names of the outputs.
      hash: the hash of the present content, from which the next delta leads.
      global_step: the step of the present values; -1 if it is not known.
      problem: the error for which the newest delta is not used; None if there is none.
    """

    def __init__(self, directory: str, signature: str, threads: int, export: str = "") -> None:
        self._directory = directory
        check_local("directory", directory)
        check_local("export", export)
        base = _newest_base(directory) if not export else _chain_base(directory)
        graph = path_of_export(export) if export else base
        saved = open_saved(base)
        self._kinds, self._files = saved.values.kinds, saved.file_hashes()
        self._served = open_saved(graph).values.kinds
        if export:
            _check_served(self._served, self._kinds, export, directory)
        self._exported = Exported(graph, signature, threads)
        self.features, self.outputs = self._exported.features, self._exported.outputs
        self._variables = _Variables(self._exported)
        self._digests = {}
        for part in all_parts(self._kinds, list(self._kinds)):
            value, self._digests[_place(part)] = read_and_hash(saved.values, part)
            if export and part.key in self._served:
                self._variables.assign(part, value)
        self.hash = _hash(self._digests, self._kinds, self._files)
        if export:
            self._variables.rebuild()
            self._graph, self.global_step = "", saved.values.global_step
        else:
            fingerprint = read_fingerprint(base)
            if fingerprint and fingerprint.get("variables") != _hash(self._digests, self._kinds, {}):
                raise DamagedCheckpointError(
                    f"{base} is damaged: its variables have another hash than its fingerprint says."
                )
            self._graph, self.global_step = graph_fingerprint(base), int(fingerprint.get("global_step", -1))
        self.problem: PsTrainError | None = None
        self._unreadable: set[str] = set()
        self._lock, self._update_lock = SharedLock(), threading.Lock()
        self._stop, self._thread = threading.Event(), threading.Thread()

    def predict(self, arrays: Any, batch_size: int = 0) -> dict[str, Array]:
        """Returns the outputs by name, all of one version of the model; see `Exported.predict`."""
        with self._lock.shared():
            return self._exported.predict(arrays, batch_size)

    def predict_examples(self, serialized: Sequence[bytes] | Array) -> dict[str, Array]:
        """Returns the outputs for serialized `tf.train.Example`s; see `Exported.predict_examples`."""
        with self._lock.shared():
            return self._exported.predict_examples(serialized)

    def update(self) -> int:
        """Applies the deltas that lead on from the present content; returns their number.

        Raises:
          ConfigError: a delta is of another graph, or two lead on to different ends.
          DamagedCheckpointError: a delta is damaged.  The model stays as it is.
        """
        count = 0
        with self._update_lock:
            while found := way(self.hash, self._links()):
                for link in found:
                    self._apply(Delta(link.folder))
                    count += 1
        return count

    def _links(self) -> list[Link]:
        """Returns the deltas that are there."""
        found, unreadable = [], set[str]()
        for folder in _folders(self._directory, MANIFEST):
            try:
                manifest = read_manifest(folder)
            except PsTrainError as error:  # it disappears, is copied at this moment, or is of another version
                unreadable.add(str(error))
                if str(error) not in self._unreadable and os.path.isfile(os.path.join(folder, MANIFEST)):
                    log.warning("%s; the delta is left out", str(error).rstrip("."))
                continue
            found.append(Link(folder, manifest.base.hash, manifest.next.hash, manifest.made))
        self._unreadable = unreadable
        return found

    def _apply(self, delta: Delta) -> None:
        manifest, folder = delta.manifest, delta.folder
        self._check_graph(delta)
        digests = self._digests_after(delta)
        kept, size = [], 0
        for part, value in self._changes(delta):
            if hash_of(value) != digests[_place(part)]:
                raise DamagedCheckpointError(f"{folder} is damaged: {part.key} has another hash than it says.")
            size += value.nbytes
            kept.append((part, value))
            if size > _KEPT_BYTES:
                kept = []
        with self._lock.alone():
            for part, value in kept if size <= _KEPT_BYTES else self._changes(delta):
                self._variables.assign(part, value)
            self._variables.rebuild()
        self._digests, self._kinds = digests, dict(manifest.kinds)
        self._files, self.hash = dict(manifest.files), manifest.next.hash
        path = os.path.join(folder, FILES)
        self.global_step = int(read_fingerprint(path).get("global_step", manifest.next.global_step))
        log.info("serving %s, from %s", described(manifest.next), folder)

    def _digests_after(self, delta: Delta) -> _Digests:
        """Returns the hashes of all parts after a delta; they have the hash that it leads to."""
        manifest = delta.manifest
        changed = {(entry.key, entry.begin): bytes.fromhex(entry.hash) for entry in manifest.entries}
        found: _Digests = {}
        for part in all_parts(manifest.kinds, list(manifest.kinds)):
            before = self._digests if self._kinds.get(part.key) == manifest.kinds[part.key] else {}
            found[_place(part)] = changed.get(_place(part)) or before.get(_place(part), b"")
        if _hash(found, manifest.kinds, manifest.files) != manifest.next.hash:
            raise DamagedCheckpointError(f"{delta.folder} is damaged: it does not lead to {described(manifest.next)}.")
        return found

    def _changes(self, delta: Delta) -> Iterator[tuple[RowRun, Any]]:
        changed = {(entry.key, entry.begin) for entry in delta.manifest.entries}
        for part in all_parts(self._served, list(self._served)):
            if _place(part) in changed:
                yield part, delta.next_value(part, self._variables.read(part))

    def _check_graph(self, delta: Delta) -> None:
        manifest, folder = delta.manifest, delta.folder
        for name in manifest.changed_files:
            if not has_hash(delta.file(name), manifest.files[name]):
                raise DamagedCheckpointError(f"{folder} is damaged: its {name} is missing or has another hash.")
        if any(manifest.kinds.get(key) != kind for key, kind in self._served.items()):
            raise ConfigError(f"{folder} changes the shapes of variables: load a new base.")
        for name in manifest.changed_files:
            if name in (FINGERPRINT, _OF_TENSORFLOW):
                continue
            if name != SAVED_MODEL or graph_fingerprint(os.path.dirname(delta.file(name))) != self._graph:
                raise ConfigError(f"{folder} changes {name}, not values alone: load a new base.")

    def follow(self, poll_secs: float) -> None:
        """Looks for deltas from now on, in a thread of its own.

        Args:
          poll_secs: seconds between two looks.
        """

        def run() -> None:
            while not self._stop.wait(poll_secs):
                try:
                    self.update()
                    self.problem = None
                except Exception as error:  # a thread that ends would leave an old model, without a word
                    problem = error if isinstance(error, PsTrainError) else ConfigError(headline(error))
                    if str(problem) != str(self.problem):
                        log.warning("%s; the model stays as it is", problem)
                    self.problem = problem

        self._thread = threading.Thread(target=run, daemon=True, name="deltas")
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, and frees the model."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock.alone():
            self._exported.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Variables:
    """The variables of a loaded SavedModel by their keys in its files."""

    def __init__(self, exported: Exported) -> None:
        self._session, self._graph = exported.session, exported.session.graph
        self._handles: dict[str, tf.Tensor] = {}
        for op in self._graph.get_operations():
            if op.type == "AssignVariableOp" and (found := _restored(op.inputs[1])):
                self._handles[found[0]] = op.inputs[0]
        self._main_op = list(self._graph.get_collection(v1.saved_model.constants.MAIN_OP_KEY))
        self._calls: dict[tuple[str, str], Any] = {}

    def _dtype(self, handle: tf.Tensor) -> tf.DType:
        return tf.as_dtype(handle.op.get_attr("dtype"))

    def _handle(self, key: str) -> tf.Tensor:
        if key not in self._handles:
            raise ConfigError(f"variable {key} of the SavedModel is not a resource variable, and cannot be updated.")
        return self._handles[key]

    def read(self, part: RowRun) -> Any:
        """Returns the present value of a part."""
        handle = self._handle(part.key)
        if part.rows < 0:
            call = self._call(
                part.key, "read", lambda: ([], tf.raw_ops.ReadVariableOp(resource=handle, dtype=self._dtype(handle)))
            )
            return np.asarray(call())

        def gather() -> Any:
            begin, end = (v1.placeholder(tf.int64, []) for _ in range(2))
            rows = tf.range(begin, end)
            return [begin, end], tf.raw_ops.ResourceGather(resource=handle, indices=rows, dtype=self._dtype(handle))

        return self._call(part.key, "gather", gather)(part.begin, part.begin + part.rows)

    def assign(self, part: RowRun, value: Any) -> None:
        """Assigns a part."""
        handle = self._handle(part.key)
        if part.rows < 0:

            def assign() -> Any:
                given = v1.placeholder(self._dtype(handle))
                return [given], tf.raw_ops.AssignVariableOp(resource=handle, value=given)

            self._call(part.key, "assign", assign)(value)
            return

        def scatter() -> Any:
            begin, given = v1.placeholder(tf.int64, []), v1.placeholder(self._dtype(handle))
            rows = tf.range(begin, begin + tf.shape(given, tf.int64)[0])
            return [begin, given], tf.raw_ops.ResourceScatterUpdate(resource=handle, indices=rows, updates=given)

        self._call(part.key, "scatter", scatter)(part.begin, value)

    def rebuild(self) -> None:
        """Runs what a SavedModel runs after its variables are loaded: it makes the indices of vocabularies."""
        for operation in self._main_op:
            self._session.run(operation)

    def _call(self, key: str, kind: str, make: Any) -> Any:
        if (key, kind) not in self._calls:
            with self._graph.as_default(), tf.device("/device:CPU:0"):
                feeds, fetch = make()
            self._calls[key, kind] = self._session.make_callable(fetch, feeds)
        return self._calls[key, kind]


def _restored(value: tf.Tensor) -> tuple[str, ...]:
    """Returns the key of a restored value; () if it is not restored as a whole."""
    while value.op.type == "Identity":
        value = value.op.inputs[0]
    if value.op.type != "RestoreV2":
        return ()
    names, slices = (tf.make_ndarray(one.op.get_attr("value")).ravel() for one in value.op.inputs[1:3])
    return () if slices[value.value_index] else (names[value.value_index].decode(),)


def _folders(directory: str, file: str) -> list[str]:
    """Returns the directories with a file of this name, the directory itself or up to two levels below it."""
    found, level = [], [directory]
    for _ in range(_DEPTH + 1):
        found += [folder for folder in level if os.path.isfile(os.path.join(folder, file))]
        below = []
        for folder in level:
            if os.path.isdir(folder) and folder not in found:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it was renamed or removed just now
                    names = sorted(name for name in os.listdir(folder) if not _is_coming(name))
                    below += [os.path.join(folder, name) for name in names]
        level = below
    return found


def _is_coming(name: str) -> bool:
    """Returns True for the name of something that is copied or made at this moment."""
    return name.startswith(".") or name.endswith(NEW)


def _newest_base(directory: str) -> str:
    bases = _folders(directory, SAVED_MODEL)
    if not bases and _folders(directory, LIST):
        raise ConfigError(
            f"{directory} has deltas of checkpoints and no SavedModel: give one with the graph by export=."
        )
    if not bases:
        raise ConfigError(f"{directory} has no SavedModel: give a directory with a base, and its deltas beside it.")
    names = {path: os.path.basename(path.rstrip("/")) for path in bases}
    return max(bases, key=lambda path: (int(names[path]) if names[path].isdecimal() else -1, names[path]))


def _chain_base(directory: str) -> str:
    base = os.path.join(directory, BASE)
    if not os.path.isfile(os.path.join(base, LIST)):
        raise ConfigError(f"{directory} has no {BASE}/ with a checkpoint: give the directory `{DELTAS}` of a run.")
    return base


def _check_served(served: Mapping[str, Kind], kinds: Mapping[str, Kind], export: str, directory: str) -> None:
    """Raises ConfigError if a checkpoint does not have the variables of an export."""
    for key, (shape, dtype) in sorted(served.items()):
        if kinds.get(key) != (shape, dtype):
            other = f"{kinds[key][0]} {kinds[key][1].name}" if key in kinds else "no such variable"
            raise ConfigError(
                f"export={export} has {key} {shape} {dtype.name}, and the checkpoints of {directory} have {other}: "
                "give a whole export in float32 of the same model."
            )


_Digests = dict[tuple[str, int], bytes]


def _place(part: RowRun) -> tuple[str, int]:
    return part.key, part.begin


def _hash(digests: _Digests, kinds: Mapping[str, Kind], files: Mapping[str, str]) -> str:
    content = ContentHash(kinds, files)
    for part in all_parts(kinds, list(kinds)):
        content.add(part, digests[_place(part)])
    return content.text()


def load(directory: str, poll_secs: float = 10.0, signature: str = "", threads: int = 0, *, export: str = "") -> Served:
    """Loads the newest SavedModel of a directory, applies the deltas there, and follows those that appear.

        model = ps_train.serving.load("/models/run1")
        model.predict({"user": [3, 4]})["probabilities"]

        model = ps_train.serving.load("/runs/1/deltas", export="/runs/1/export")    # deltas of checkpoints

    Args:
      directory: has a SavedModel and deltas, at most two levels below it, under any names without a dot at the
        beginning.  Of several SavedModels the one with the largest number as its name is the base.
      poll_secs: seconds between two looks for deltas; 0: only `update()` looks for them.
      signature: name of the signature; "" for `serving_default`.
      threads: threads that compute; 0: as many as cores.
      export: for the `deltas` of a run (`--delta_every_secs`), a SavedModel of the same model, or the directory above
        its number.  It gives the graph; the values are those of the chain.

    Returns:
      The model.  `close()` it, or use it in a `with` statement.

    Raises:
      ConfigError: there is no SavedModel, a delta is of another graph, the export has other variables than the
        checkpoints, or poll_secs is negative.
      DamagedCheckpointError: a file is damaged.
    """
    if not poll_secs >= 0:  # also NaN
        raise ConfigError(f"poll_secs={poll_secs} is not possible: use seconds, or 0 to look only at update().")
    model = Served(directory, signature, threads, export)
    model.update()
    if poll_secs:
        model.follow(poll_secs)
    return model
