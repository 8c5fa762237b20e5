"""Export of an Estimator's model as a SavedModel, which serves without this package.

    checkpoint, base = "/models/run1/model.ckpt-2000", "/models/run1/export"
    export_saved_model(model_fn, receiver_fn, config, checkpoint, base, ExportOptions())    # b".../export/1700000000"

Directories are named by the time in seconds, as TensorFlow Serving expects it: the largest is served.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.io import gfile

from ps_train.compat.capture.counted_step import operations_of
from ps_train.compat.capture.sessions import estimator_graph
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.data.opened_files import names_in
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues
from ps_train.saved.export.fingerprint import write_fingerprint
from ps_train.saved.export.numbered import next_number, write_numbered
from ps_train.saved.values import hash_of_values

log = logging.getLogger(__name__)

_SERVING_METHODS = (
    v1.saved_model.signature_constants.CLASSIFY_METHOD_NAME,
    v1.saved_model.signature_constants.REGRESS_METHOD_NAME,
    v1.saved_model.signature_constants.PREDICT_METHOD_NAME,
)


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Options of one export.

    Attributes:
      assets_extra: path below `assets.extra` to the file that is copied there.
      as_text: writes the graph as text, and no fingerprint.
      strip_default_attrs: leaves out attributes that have their defaults, so that older servers can read the graph.
    """

    assets_extra: Mapping[str, str] = dataclasses.field(default_factory=dict)
    as_text: bool = False
    strip_default_attrs: bool = True


def export_saved_model(
    model_fn: Callable[..., EstimatorSpec],
    receiver_fn: Callable[[], Any],
    config: RunConfig,
    checkpoint: str,
    base: str,
    options: ExportOptions,
) -> bytes:
    """Writes the SavedModel into a new directory, which is complete when it appears.

    Args:
      model_fn: called as `model_fn(features, None, mode)`.
      receiver_fn: returns a ServingInputReceiver or TensorServingInputReceiver.
      config: gives seed and session.
      checkpoint: path of the variables' values.
      base: directory of all exports.
      options: of this export.

    Returns:
      The path of the directory, as bytes, like the original.

    Raises:
      ValueError: the checkpoint lacks a variable, or there is nothing to serve.
    """
    base = tf.compat.as_str(os.fspath(base))

    def write(path: str) -> None:
        with estimator_graph(config):
            receiver = receiver_fn()
            spec = model_fn(receiver.features, None, ModeKeys.PREDICT)
            _write(path, config, checkpoint, spec, _signatures(receiver, spec.export_outputs), options)
        if not options.as_text:  # what `ps_train.serving.load` compares, as exports of jobs have it
            variables = hash_of_values(CheckpointValues(os.path.join(path, "variables", "variables")), {})
            write_fingerprint(path, {"variables": variables, "global_step": CheckpointValues(checkpoint).global_step})
        _copy_assets(options.assets_extra, path)

    unfinished = os.path.join(base, f"temp-{int(time.time())}-{os.getpid()}")
    return tf.compat.as_bytes(write_numbered(unfinished, write, lambda: _next_path(base)))


def _write(
    path: str, config: RunConfig, checkpoint: str, spec: EstimatorSpec, signatures: Any, options: ExportOptions
) -> None:
    saver = spec.scaffold.saver or v1.train.Saver(sharded=True)
    with v1.Session(config=config.session_config) as session:
        main_op = v1.train.Scaffold.default_local_init_op()
        if spec.scaffold.local_init_op is not None:
            main_op = tf.group(*operations_of(spec.scaffold.local_init_op))
        _restore(saver, session, checkpoint)
        builder = v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session,
            [v1.saved_model.tag_constants.SERVING],
            signatures,
            v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=main_op,
            strip_default_attrs=options.strip_default_attrs,
            saver=saver,
        )
        builder.save(options.as_text)


def _restore(saver: v1.train.Saver, session: v1.Session, checkpoint: str) -> None:
    try:
        saver.restore(session, checkpoint)
    except tf.errors.NotFoundError as error:
        names = {name for name, _ in tf.train.list_variables(checkpoint)}
        missing = sorted({variable.op.name for variable in v1.global_variables()} - names)
        raise ValueError(
            f"checkpoint {checkpoint} lacks variables of the model_fn in mode {ModeKeys.PREDICT}: {missing}; export "
            "the model that was trained."
        ) from error


def _signatures(receiver: Any, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns name to signature, for every output that can be served with a receiver's tensors.

    An alternative of the receiver gives signatures named `alternative:output`.
    """
    groups = {"": receiver.receiver_tensors, **(getattr(receiver, "receiver_tensors_alternatives", None) or {})}
    signatures, problems = {}, []
    for group, tensors in groups.items():
        fed = tensors if isinstance(tensors, dict) else {"input": tensors}
        for key, output in outputs.items():
            name = f"{group}:{key}" if group else key
            try:
                signature = output.as_signature_def(fed)
                _check_servable(fed, signature)
            except ValueError as error:
                problems.append(f"{name}: {error}")
                log.info("signature %s is left out: %s", name, error)
                continue
            if signature.method_name in _SERVING_METHODS and v1.saved_model.is_valid_signature(signature):
                signatures[name] = signature
    if not signatures:
        log.warning("the export has no signature: %s", "; ".join(problems))
    return signatures


def _check_servable(fed: Mapping[str, Any], signature: Any) -> None:
    """Raises ValueError if an output needs a placeholder that the signature does not feed."""
    graph = v1.get_default_graph()
    inputs = {tensor.ref() for tensor in tf.nest.flatten(dict(fed), expand_composites=True)}
    names = [name for info in signature.outputs.values() for name in _tensor_names(info)]
    waiting, seen = [graph.get_tensor_by_name(name) for name in names], set()
    while waiting:
        tensor = waiting.pop()
        if tensor.ref() in inputs or tensor.op in seen:
            continue
        if tensor.op.type == "Placeholder":
            raise ValueError(f"it needs {tensor.op.name}, which is not among its inputs {sorted(fed)}")
        seen.add(tensor.op)
        waiting.extend(tensor.op.inputs)


def _tensor_names(info: Any) -> Iterable[str]:
    if info.name:
        return [info.name]
    if info.HasField("coo_sparse"):
        sparse = info.coo_sparse
        return [sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name]
    return [name for part in info.composite_tensor.components for name in _tensor_names(part)]


def _copy_assets(assets: Mapping[str, str], path: str) -> None:
    for name, source in assets.items():
        target = os.path.join(path, "assets.extra", tf.compat.as_str(name))
        gfile.makedirs(os.path.dirname(target))
        gfile.copy(source, target)


def _next_path(base: str) -> str:
    """Returns the path whose name is the time in seconds, or the number after the last export if that is as new."""
    times = [name for name in names_in(base) if len(name) == 10]
    return os.path.join(base, str(next_number(times, int(time.time()))))
