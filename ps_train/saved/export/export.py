"""Export of the trained model as a SavedModel, which serves without this package.

    export(model, source, "/models/run1/model.ckpt-2000", "/models/run1/export")      # ".../export/1"
    tf.saved_model.load("/models/run1/export/1").signatures["serving_default"](integers=..., categories=...)

The signature `serving_default` takes the features by their names ("features" if there is only one array;
`served_features.py`).  The signature `examples` takes a vector of serialized `tf.train.Example`s with the same
names.  Both return the outputs of `Model.predictions`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import tempfile
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.io import gfile

from ps_train.base.errors import ConfigError, SaveError, cause_of, one_line
from ps_train.base.malloc import large_blocks_returned
from ps_train.base.remote_files import RemoteDirectory, scheme_of
from ps_train.base.whole_file import NEW
from ps_train.config.job import Job
from ps_train.config.metric_rule import parse_export
from ps_train.data.opened_files import errors_of, is_of_tensorflow, names_in, upload
from ps_train.data.pipeline import DataSource, evaluation_batches
from ps_train.data.served_features import ServedFeatures
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues
from ps_train.engine.variables.plain_graph import plain_graph
from ps_train.modeling.model import Model
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from ps_train.modeling.tables.row_source import declared_tables, rows_from
from ps_train.modeling.tables.table_layout import LAYOUTS_FILE, layouts_text
from ps_train.saved.export.checkpoint_copier import CheckpointCopier
from ps_train.saved.export.coded_rows import FLOAT32, CodedRows
from ps_train.saved.export.fingerprint import write_fingerprint
from ps_train.saved.export.numbered import next_number, write_numbered
from ps_train.saved.export.split_tables import SplitLookups, write_tables

Check = Callable[[str], Mapping[str, Any]]
"""Takes the directory of a SavedModel; see `export`."""


@dataclasses.dataclass(frozen=True)
class ExportForm:
    """The form of an export.

    Attributes:
      is_split: the SavedModel takes rows as inputs, and the tables are in files beside it (`split_tables.py`).
      rows: dtype of the rows of tables (`coded_rows.py`).
    """

    is_split: bool = False
    rows: str = FLOAT32


def form_of(job: Job) -> ExportForm:
    """Returns the form of a job's exports."""
    choice = parse_export(job.export)
    return ExportForm(choice is not None and choice.is_split, job.export_rows)


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


def export(
    model: Model,
    source: DataSource,
    checkpoint: str,
    directory: str,
    form: ExportForm = ExportForm(),
    check: Check | None = None,
) -> str:
    """Writes the SavedModel into the next numbered directory.

    On a local disk that directory is complete when it appears.  Elsewhere it is written on the local disk first, and
    `saved_model.pb` is copied last.

    Args:
      model: the trained model.
      source: data with the features that will be served.
      checkpoint: path of the checkpoint.
      directory: absolute path, from `prepare_export`.
      form: of the export.
      check: called with the directory of the complete SavedModel before it gets its name; returns what its fingerprint
        says beside the hashes, or raises an error, so that there is no export.

    Returns:
      The path of the SavedModel.

    Raises:
      ModelError: a feature cannot be exported, or the checkpoint belongs to another model.
      DamagedCheckpointError: the checkpoint is damaged.
      SaveError: the file system does not take it.
    """
    if scheme_of(directory):
        with tempfile.TemporaryDirectory(prefix="ps_train_export_") as local:
            whole = os.path.join(local, "export")
            _write(model, source, checkpoint, whole, form, check)
            return _upload(whole, _next_path(directory))
    return write_numbered(
        os.path.join(directory, f"export-{socket.gethostname()}-{os.getpid()}{NEW}"),
        lambda path: _write(model, source, checkpoint, path, form, check),
        lambda: _next_path(directory),
    )


def _upload(whole: str, path: str) -> str:
    """Copies a SavedModel to another file system; returns its path there."""
    names = [os.path.relpath(os.path.join(at, name), whole) for at, _, some in os.walk(whole) for name in some]
    try:
        for name in sorted(names, key=lambda name: name == "saved_model.pb"):
            upload(os.path.join(whole, name), f"{path}/{name}")
    except Exception as error:
        raise SaveError(f"{path} could not be written: {one_line(error)}.") from error
    return path


def _write(model: Model, source: DataSource, checkpoint: str, path: str, form: ExportForm, check: Check | None) -> None:
    served = served_features(source)
    with tf.Graph().as_default() as graph:
        lookups = SplitLookups() if form.is_split else None
        coded = CodedRows(form.rows) if form.rows != FLOAT32 else None
        serialized = v1.placeholder(tf.string, [None], "examples")
        features, inputs = served.placeholders(serialized)
        rows_source = lookups or coded
        given = contextlib.nullcontext() if rows_source is None else rows_from(rows_source)
        values = CheckpointValues(checkpoint)
        known = ChainMap(values.kinds, {} if coded is None else coded.kinds)
        with plain_graph(known, f"checkpoint {checkpoint}") as plain, given:
            outputs = model.forward(features, False)
            predictions = dict(model.predictions(outputs))
        examples: dict[str, tf.Tensor] = {"examples": serialized}
        split = None if lookups is None else lookups.resolve()
        rows = {} if split is None else {f"rows/{name}": tensor for name, tensor in split.rows.items()}
        signatures = {
            "serving_default": _signature({**inputs, **rows}, predictions),
            "examples": _signature({**examples, **rows}, predictions),
        }
        if split is not None and split.ids:
            signatures |= {"ids": _signature(inputs, split.ids), "example_ids": _signature(examples, split.ids)}
        saver = CheckpointCopier(plain.variables, values, coded)
        assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
        builder = v1.saved_model.Builder(path)
        main_op = _when_loaded()
        with v1.Session(graph=graph) as session:
            builder.add_meta_graph_and_variables(
                session, ["serve"], signatures, assets, main_op=main_op, strip_default_attrs=True, saver=saver
            )
        if form == ExportForm():  # others have not the tables' variables
            _describe_tables(path)
        builder.save()
    with large_blocks_returned(os.environ):
        content = saver.copy()
        if split is not None:
            write_tables(split.tables, values, path)
    facts = check(path) if check is not None else {}
    write_fingerprint(path, {"variables": content, "global_step": values.global_step, **facts})


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


def _next_path(directory: str) -> str:
    """Returns the path of the next export."""
    return f"{directory}/{next_number(names_in(directory))}"


def remove_export(path: str) -> None:
    """Removes an export.

    Raises:
      OSError, tf.errors.OpError, or an exception of the file system's package.
    """
    if is_of_tensorflow(path):
        gfile.rmtree(path)
    else:
        RemoteDirectory(path).remove_all()
