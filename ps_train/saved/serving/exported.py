"""A loaded SavedModel: predictions for arrays, or for serialized examples.

    exported = Exported("/models/run1/export")                          # the newest of its numbers
    exported.predict({"user": np.array([3, 4]), "ids": [[1], []]})      # {"probabilities": float32 [2]}
    exported.predict_examples(serialized)                               # the same for a list of tf.train.Examples

It takes SavedModels of any origin with a signature whose outputs have a row for each row of the inputs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.io import gfile

from ps_train.base.deprecations import hide_own_deprecations
from ps_train.base.errors import ConfigError, DataError, PsTrainError, cause_of, one_line
from ps_train.base.remote_files import RemoteDirectory
from ps_train.data.opened_files import errors_of, is_of_tensorflow, is_there, names_in
from ps_train.data.stream import with_any_bytes
from ps_train.saved.export.split_tables import MANIFEST
from ps_train.saved.serving.feature_values import (
    Array,
    Feature,
    features_of,
    padded,
    row_count,
    rows_of,
    tensors_of,
    value_of,
)

SAVED_MODEL = "saved_model.pb"
_DEFAULT, _EXAMPLES = "serving_default", "examples"


def path_of_export(path: str) -> str:
    """Returns the directory of a SavedModel: the path itself, or the one of the largest number below it.

    Raises:
      ConfigError: there is none.
      OSError, tf.errors.OpError, or an exception of the file system's package.
    """
    if is_there(f"{path}/{SAVED_MODEL}"):
        return path
    names = names_in(path) if is_there(path) else []
    numbers = sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)
    for number in numbers:
        if is_there(f"{path}/{number}/{SAVED_MODEL}"):
            return f"{path}/{number}"
    raise ConfigError(f"export_dir={path} has no {SAVED_MODEL}, and no number below it has: give a SavedModel.")


@contextlib.contextmanager
def local_export(path: str) -> Iterator[str]:
    """Gives the directory of a SavedModel for TensorFlow: its own, or a copy on the local disk (TMPDIR).

    Args:
      path: its directory, or the one above its number, on any file system of TensorFlow or fsspec.

    Raises:
      ConfigError: there is none, or it cannot be read.
    """
    with contextlib.ExitStack() as stack:
        try:
            found = path_of_export(path.rstrip("/") or path)
            if not is_of_tensorflow(found):
                remote, copy = RemoteDirectory(found), stack.enter_context(tempfile.TemporaryDirectory())
                for name in remote.sizes():
                    remote.download(name, copy)
                found = copy
        except PsTrainError:
            raise
        except (*errors_of(path), tf.errors.OpError) as error:
            raise ConfigError(f"export_dir={path} cannot be read ({one_line(error)}): give a SavedModel.") from None
        yield found


class Exported:
    """A SavedModel in a session of its own.

    Args:
      path: its directory, or the one above its number, on any file system of TensorFlow or fsspec.
      signature: name of the signature; "" for `serving_default`, or the only one.
      threads: threads that compute; 0: as many as cores.

    Attributes:
      path: the path as it was given.
      hash: SHA-256 of the graph and of the index of its variables, which has the checksums of all values.
      features: name to feature, in the order of names.
      outputs: names of the outputs, sorted.
      takes_examples: True if it predicts for serialized examples.
      session: the session with the variables.

    Raises:
      ConfigError: there is no SavedModel, or no such signature.
    """

    def __init__(self, path: str, signature: str = "", threads: int = 0) -> None:
        self.path = path
        hide_own_deprecations()
        self._graph = tf.Graph()
        options = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        self.session = v1.Session(graph=self._graph, config=options)
        try:
            with local_export(path) as folder, self._graph.as_default():
                meta_graph = v1.saved_model.load(self.session, [v1.saved_model.tag_constants.SERVING], folder)
                self.hash, is_split = _hash_of(folder), gfile.exists(f"{folder}/{MANIFEST}")
        except PsTrainError:
            self.close()
            raise
        except (tf.errors.OpError, OSError, RuntimeError, ValueError) as error:
            self.close()
            raise ConfigError(f"export_dir={path} cannot be loaded ({cause_of(error)}): give a SavedModel.") from None
        self._signatures = {name: one for name, one in meta_graph.signature_def.items() if one.outputs}
        chosen = self._signatures[self._choice(path, signature)]
        if is_split and any(name.startswith("rows/") for name in chosen.inputs):
            self.close()
            raise ConfigError(f"{path} is an export in parts: give a whole one.", page="serve#exports-in-parts")
        shapes = {name: (tf.as_dtype(info.dtype), _shape_of(info)) for name, info in chosen.inputs.items()}
        self.features = dict(sorted(features_of(shapes).items()))
        self.outputs = sorted(chosen.outputs)
        self._batch = _batch_of(self.features, shapes)
        self._run = self._callable(chosen, [name for one in self.features.values() for name in one.inputs])
        parsing = chosen if _is_of_examples(chosen) else self._signatures.get(_EXAMPLES)
        self._run_examples = None
        if parsing is not None and _is_of_examples(parsing):
            self._run_examples = self._callable(parsing, list(parsing.inputs))
            self._examples_batch = next((_shape_of(info) or [0])[0] or 0 for info in parsing.inputs.values())
        self.takes_examples = self._run_examples is not None

    def _choice(self, path: str, signature: str) -> str:
        if signature in self._signatures:
            return signature
        names = sorted(self._signatures)
        if signature or not names:
            raise ConfigError(f"signature={signature} is not in {path}: it has {', '.join(names) or 'none'}.")
        if _DEFAULT not in names and len(names) > 1:
            raise ConfigError(f"{path} has no signature {_DEFAULT}: choose one of {', '.join(names)} by --signature.")
        return _DEFAULT if _DEFAULT in names else names[0]

    def _callable(self, signature: Any, inputs: Sequence[str]) -> Callable[..., dict[str, Array]]:
        def tensor(info: Any) -> tf.Tensor:
            return self._graph.get_tensor_by_name(info.name)

        outputs = {name: tensor(signature.outputs[name]) for name in sorted(signature.outputs)}
        return self.session.make_callable(outputs, [tensor(signature.inputs[name]) for name in inputs])

    def values_of(self, arrays: Any) -> dict[str, Any]:
        """Returns the value of each feature, checked.

        Args:
          arrays: feature name to value, as `feature_values.value_of` takes it; or the value of the only feature.

        Raises:
          DataError: a feature is missing, or a value does not fit.
        """
        if not isinstance(arrays, Mapping):
            if len(self.features) != 1:
                raise DataError(f"one array is given: the model takes features by name: {', '.join(self.features)}.")
            arrays = {next(iter(self.features)): arrays}
        if missing := sorted(self.features.keys() - arrays.keys()):
            has = ", ".join(sorted(map(str, arrays))) or "nothing"
            raise DataError(f"there is no {', '.join(missing)}, which the model takes: the data have {has}.")
        values = {name: value_of(feature, arrays[name]) for name, feature in self.features.items()}
        counts = {name: row_count(value) for name, value in values.items()}
        if len(set(counts.values())) > 1:
            raise DataError(f"features differ in their numbers of rows: {counts}.")
        return values

    def predict(self, arrays: Any, batch_size: int = 0) -> dict[str, Array]:
        """Returns the outputs by name, each [rows, ...].

        Args:
          arrays: as `values_of` takes them.
          batch_size: rows of one call; 0: all.

        Raises:
          DataError: the values do not fit, the model refuses them, or an output has not a row for each row.
        """
        values = self.values_of(arrays)
        rows = row_count(next(iter(values.values()))) if values else 0
        step = self._batch or batch_size or max(rows, 1)
        found = []
        for begin in range(0, max(rows, 1), step):
            end = min(begin + step, rows)
            some = [padded(rows_of(value, begin, end), self._batch) for value in values.values()]
            feeds = [tensor for value in some for tensor in tensors_of(value)]
            found.append(self._called(self._run, feeds, end - begin, self._batch))
        return {name: np.concatenate([one[name] for one in found]) for name in self.outputs}

    def predict_examples(self, serialized: Sequence[bytes] | Array) -> dict[str, Array]:
        """Returns the outputs for serialized `tf.train.Example`s, by name, each [rows, ...].

        Raises:
          DataError: an example cannot be parsed, or the model refuses it.
        """
        if self._run_examples is None:
            raise DataError(f"{self.path} has no signature for serialized examples: give data with columns.")
        examples = np.asarray(serialized, object)
        step = self._examples_batch or max(len(examples), 1)
        found = []
        for begin in range(0, max(len(examples), 1), step):
            some = examples[begin : begin + step]
            feeds = [padded(some, self._examples_batch)]
            found.append(self._called(self._run_examples, feeds, len(some), self._examples_batch))
        return {name: np.concatenate([one[name] for one in found]) for name in found[0]}

    def _called(
        self, run: Callable[..., dict[str, Array]], feeds: Sequence[Array], rows: int, batch: int
    ) -> dict[str, Array]:
        try:
            with with_any_bytes():
                found = run(*feeds)
        except tf.errors.InvalidArgumentError as error:
            raise DataError(f"the model cannot take these rows: {cause_of(error)}.") from None
        given = max(rows, batch)
        for name, value in found.items():
            if value.shape[:1] != (given,):
                raise DataError(
                    f"output {name} has the shape {list(value.shape)}, and not one row for each of {given}."
                )
        return {name: value[:rows] for name, value in found.items()}

    def close(self) -> None:
        """Frees the session and its variables."""
        self.session.close()


def predict(export: str | Exported, arrays: Any, batch_size: int = 4096) -> dict[str, Array]:
    """Returns what an exported model predicts for arrays.

        ps_train.predict("/models/run1/export", {"user": users, "price": prices})["probabilities"]

    Args:
      export: directory of a SavedModel, or the one above its number; or a model of `ps_train.serving.load`.
      arrays: feature name to value, one row an example: a numpy array or tensor [rows, ...]; for a ragged or sparse
        feature a list of lists, or a RaggedTensor or SparseTensor.  Or the value of the model's only feature.
      batch_size: rows of one call of the model.

    Returns:
      Name of an output to its values, [rows, ...].

    Raises:
      ConfigError: there is no SavedModel.
      DataError: the values do not fit the model.
    """
    if not isinstance(export, str | os.PathLike):
        return export.predict(arrays, batch_size)
    exported = Exported(os.fspath(export))
    try:
        return exported.predict(arrays, batch_size)
    finally:
        exported.close()


def _hash_of(folder: str) -> str:
    digest = hashlib.sha256()
    for name in (SAVED_MODEL, "variables/variables.index"):
        if gfile.exists(f"{folder}/{name}"):
            with gfile.GFile(f"{folder}/{name}", "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def _shape_of(info: Any) -> tuple[int | None, ...] | None:
    shape = tf.TensorShape(info.tensor_shape)
    return None if shape.rank is None else tuple(shape.as_list())


def _batch_of(features: Mapping[str, Feature], shapes: Mapping[str, tuple[Any, tuple[int | None, ...] | None]]) -> int:
    """Returns the number of rows of each call of a signature; 0 for any."""
    for feature in features.values():
        if feature.kind == "dense" and (shape := shapes[feature.name][1]) and shape[0]:
            return shape[0]
        if feature.kind == "ragged" and (shape := shapes[feature.inputs[1]][1]) and shape[0]:
            return shape[0] - 1
    return 0


def _is_of_examples(signature: Any) -> bool:
    """Returns True if the only input of a signature is a vector of strings named as serialized examples are."""
    if len(signature.inputs) != 1:
        return False
    ((name, info),) = signature.inputs.items()
    return info.dtype == tf.string.as_datatype_enum and name in ("examples", "inputs", "input", "serialized")
