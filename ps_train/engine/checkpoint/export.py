"""Export of the trained model as a SavedModel, which serves without this package.

    export(model, source, "/models/run1/model.ckpt-2000", "/models/run1/export")      # ".../export/1"
    tf.saved_model.load("/models/run1/export/1").signatures["serving_default"](integers=..., categories=...)

The signature `serving_default` takes the features by their names ("features" if there is only one array;
`served_features.py`).  The signature `examples` takes a vector of serialized `tf.train.Example`s with the same
names.  Both return the outputs of `Model.predictions`.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.io import gfile

from ps_train.base.errors import ConfigError, SaveError, cause_of, one_line
from ps_train.base.remote_files import RemoteDirectory, scheme_of
from ps_train.data.opened_files import errors_of, is_of_tensorflow
from ps_train.data.pipeline import DataSource, evaluation_batches
from ps_train.data.served_features import ServedFeatures
from ps_train.engine.checkpoint.contents import restore_into, shapes_and_dtypes
from ps_train.engine.variables.plain_graph import plain_graph
from ps_train.modeling.model import Model
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from ps_train.modeling.tables.row_source import declared_tables
from ps_train.modeling.tables.table_layout import LAYOUTS_FILE, layouts_text


def prepare_export(path: str) -> str:
    """Makes the directory of the exports, before training.

    Returns:
      The absolute path.

    Raises:
      ConfigError: the directory cannot be made.
    """
    folder = path if scheme_of(path) else os.path.abspath(path)
    try:
        if is_of_tensorflow(folder):
            gfile.makedirs(folder)
        else:
            RemoteDirectory(folder).make()
        names_in(folder)
    except (*errors_of(path), tf.errors.OpError) as error:
        raise ConfigError(f"export_dir={path} cannot be written ({cause_of(error)}): use another directory.") from None
    return folder


def served_features(source: DataSource) -> ServedFeatures:
    """Returns the features of an export; call it before training, too.

    Args:
      source: data with the features that will be served.

    Raises:
      ModelError: a feature cannot be exported.
    """
    with tf.Graph().as_default():
        return ServedFeatures(evaluation_batches(source.get(), 1).features)


def export(model: Model, source: DataSource, checkpoint: str, directory: str) -> str:
    """Writes the SavedModel into the next numbered directory.

    On a local disk that directory is complete when it appears.  Elsewhere `saved_model.pb` is written last.

    Args:
      model: the trained model.
      source: data with the features that will be served.
      checkpoint: path of the checkpoint.
      directory: absolute path, from `prepare_export`.

    Returns:
      The path of the SavedModel.

    Raises:
      ModelError: a feature cannot be exported, or the checkpoint belongs to another model.
      DamagedCheckpointError: the checkpoint is damaged.
      SaveError: a file system of fsspec does not take it.
    """
    if not is_of_tensorflow(directory):
        return _export_by_fsspec(model, source, checkpoint, directory)
    is_remote = bool(scheme_of(directory))
    unfinished = f"unfinished-{socket.gethostname()}-{os.getpid()}"
    path = os.path.join(directory, str(_next_number(directory)) if is_remote else unfinished)
    if not is_remote:
        shutil.rmtree(path, ignore_errors=True)
    _write(model, source, checkpoint, path)
    return path if is_remote else _number(path, directory)


def _export_by_fsspec(model: Model, source: DataSource, checkpoint: str, directory: str) -> str:
    path = f"{directory}/{_next_number(directory)}"
    remote = RemoteDirectory(path)
    with tempfile.TemporaryDirectory(prefix="ps_train_export_") as local:
        whole = os.path.join(local, "export")
        _write(model, source, checkpoint, whole)
        found = [os.path.join(folder, name) for folder, _, names in os.walk(whole) for name in names]
        try:
            for name in sorted(found, key=lambda name: name.endswith("saved_model.pb")):
                remote.upload(name, os.path.relpath(name, whole))
        except Exception as error:
            raise SaveError(f"{path} could not be written: {one_line(error)}.") from error
    return path


def _write(model: Model, source: DataSource, checkpoint: str, path: str) -> None:
    served = served_features(source)
    with tf.Graph().as_default():
        serialized = v1.placeholder(tf.string, [None], "examples")
        features, inputs = served.placeholders(serialized)
        with plain_graph(shapes_and_dtypes(checkpoint), f"checkpoint {checkpoint}") as plain:
            outputs = model.forward(features, False)
            predictions = dict(model.predictions(outputs))
        signatures = {
            "serving_default": _signature(inputs, predictions),
            "examples": _signature({"examples": serialized}, predictions),
        }
        with v1.Session() as session:
            restore_into(session, plain.variables, checkpoint)
            assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
            builder = v1.saved_model.Builder(path)
            builder.add_meta_graph_and_variables(
                session, ["serve"], signatures, assets, main_op=_when_loaded(), strip_default_attrs=True
            )
            _describe_tables(path)
            builder.save()


def _describe_tables(path: str) -> None:
    """Writes the layouts of the default graph's tables into a SavedModel, for a warm start from it."""
    tables = declared_tables(v1.get_default_graph())
    if tables:
        gfile.makedirs(os.path.dirname(os.path.join(path, LAYOUTS_FILE)))
        with gfile.GFile(os.path.join(path, LAYOUTS_FILE), "w") as file:
            file.write(layouts_text(tables))


def _when_loaded() -> tf.Operation:
    """Makes the operation that runs after the variables of a SavedModel are loaded."""
    with tf.control_dependencies([v1.tables_initializer()]):
        local = v1.local_variables_initializer()
    return tf.group(local, *v1.get_collection(AFTER_RESTORE))


def _signature(inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Any:
    build = v1.saved_model.build_tensor_info
    return v1.saved_model.build_signature_def(
        {name: build(tensor) for name, tensor in inputs.items()},
        {name: build(tensor) for name, tensor in outputs.items()},
        v1.saved_model.signature_constants.PREDICT_METHOD_NAME,
    )


def _next_number(directory: str) -> int:
    """Returns the number of the next export, as TensorFlow Serving expects it: the largest is served."""
    names = names_in(directory)
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=0) + 1


def names_in(directory: str) -> list[str]:
    """Returns the names in the directory of the exports."""
    if is_of_tensorflow(directory):
        return [name.rstrip("/") for name in gfile.listdir(directory)]
    return RemoteDirectory(directory).names()


def remove_export(path: str) -> None:
    """Removes an export.

    Raises:
      OSError, tf.errors.OpError, or an exception of the file system's package.
    """
    if is_of_tensorflow(path):
        gfile.rmtree(path)
    else:
        RemoteDirectory(path).remove_all()


def _number(unfinished: str, directory: str) -> str:
    """Moves a new export to the next number; returns its path."""
    while True:
        path = os.path.join(directory, str(_next_number(directory)))
        try:
            os.rename(unfinished, path)
            return path
        except OSError:
            if not os.path.exists(path):  # otherwise another job was faster
                raise
