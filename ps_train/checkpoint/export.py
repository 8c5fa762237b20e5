"""The trained model as a SavedModel, which serves without this package.

    export(model, source, "/models/run1/model.ckpt-2000", "/models/run1/export")
    tf.saved_model.load("/models/run1/export").signatures["serving_default"](integers=..., categories=...)

Signatures: `serving_default` is given the features by their names ("features" where there is only one array), and
`examples` a vector of serialized `tf.train.Example`s with the same names.  Both return what `Model.predictions` says.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint.contents import restore_into, shapes_and_dtypes
from ps_train.data.pipeline import DataSource, evaluation_batches
from ps_train.embeddings.plain_vocabulary import AFTER_RESTORE
from ps_train.errors import ConfigError, ModelError
from ps_train.model import Model
from ps_train.placement.plain import plain_graph

_SAVED = "saved_model.pb"
_ONLY = "features"


def prepare_export(path: str) -> str:
    """Checks, before anything is trained, that there is nothing that an export would delete; returns the absolute path.

    An earlier export is replaced."""
    folder = pathlib.Path(path).absolute()
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / _SAVED).exists())):
        raise ConfigError(
            f"export_dir={path} holds something that is no SavedModel: use a new one, or that of an earlier export."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"export_dir={path} cannot be written ({error.strerror}): use another directory.") from None
    return str(folder)


def export(model: Model, source: DataSource, checkpoint: str, directory: str) -> None:
    """Writes a directory that is whole when it appears.

    Args:
      source: of data whose features are those that will be served.
      directory: absolute, of `prepare_export`.
    """
    kinds, only = _kinds_of(source)
    unfinished = f"{directory}.unfinished-{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    with tf.Graph().as_default():
        serialized = v1.placeholder(tf.string, [None], "examples")
        features = _features(serialized, kinds)
        with plain_graph(shapes_and_dtypes(checkpoint), f"checkpoint {checkpoint}") as plain:
            outputs = model.forward(features[_ONLY] if only else features, training=False)
            predictions = dict(model.predictions(outputs))
        signatures = {
            "serving_default": _signature(features, predictions),
            "examples": _signature({"examples": serialized}, predictions),
        }
        with v1.Session() as session:
            restore_into(session, plain.variables, checkpoint)
            assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
            builder = v1.saved_model.Builder(unfinished)
            builder.add_meta_graph_and_variables(
                session, ["serve"], signatures, assets, main_op=_when_loaded(), strip_default_attrs=True
            )
            builder.save()
    _replace(unfinished, directory)


def _when_loaded() -> tf.Operation:
    """What is run when the variables of a SavedModel have their values."""
    with tf.control_dependencies([v1.tables_initializer()]):
        local = v1.local_variables_initializer()
    return tf.group(local, *v1.get_collection(AFTER_RESTORE))


def _kinds_of(source: DataSource) -> tuple[dict[str, tuple[tf.DType, list[int]]], bool]:
    """Name of each feature to dtype and shape of one example's; and whether there is only one, without a name."""
    with tf.Graph().as_default():
        features = evaluation_batches(source.get(), 1).features
        only = not isinstance(features, Mapping)
        named = {_ONLY: features} if only else features
        return {name: _kind_of(name, feature) for name, feature in named.items()}, only


def _kind_of(name: str, feature: Any) -> tuple[tf.DType, list[int]]:
    shape: list[int | None] = feature.shape.as_list()[1:] if isinstance(feature, tf.Tensor) else [None]
    fixed = [size for size in shape if size is not None]
    if len(fixed) < len(shape):
        raise ModelError(
            f"feature {name} has no fixed shape ({feature.shape}): only features of fixed shapes can be exported; "
            "leave out --export_dir."
        )
    return feature.dtype, fixed


def _features(serialized: tf.Tensor, kinds: Mapping[str, tuple[tf.DType, list[int]]]) -> dict[str, tf.Tensor]:
    """Features of serialized examples, which can be fed in their place."""
    written = {name: tf.io.FixedLenFeature(shape, _in_examples(dtype)) for name, (dtype, shape) in kinds.items()}
    parsed = tf.io.parse_example(serialized, written)
    return {
        name: v1.placeholder_with_default(tf.cast(parsed[name], dtype), [None, *shape], _node_name(name))
        for name, (dtype, shape) in kinds.items()
    }


def _node_name(name: str) -> str:
    """A name that a node may have; the signature has the feature's own."""
    return "features/" + re.sub("[^A-Za-z0-9_.-]", "_", name)


def _in_examples(dtype: tf.DType) -> tf.DType:
    """How an Example holds numbers of a dtype."""
    if dtype == tf.string:
        return tf.string
    return tf.float32 if dtype.is_floating else tf.int64


def _signature(inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Any:
    build = v1.saved_model.build_tensor_info
    return v1.saved_model.build_signature_def(
        {name: build(tensor) for name, tensor in inputs.items()},
        {name: build(tensor) for name, tensor in outputs.items()},
        v1.saved_model.signature_constants.PREDICT_METHOD_NAME,
    )


def _replace(made: str, directory: str) -> None:
    """The new one takes the place of an earlier one."""
    old = f"{directory}.old-{os.getpid()}"
    if os.path.exists(directory):
        os.rename(directory, old)
    os.rename(made, directory)
    shutil.rmtree(old, ignore_errors=True)
