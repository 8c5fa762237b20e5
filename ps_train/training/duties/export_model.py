"""The export of a checkpoint as a job asks for it, and the score of a checkpoint in a plain graph.

    export_model(job, model, source, "/models/run1/model.ckpt-2000", "/models/run1/export")

Rows in fewer bytes (--export_rows) are exported if they lose little AUC on the test split.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, ModelError
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.data.pipeline import DataSource
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues, examples_of
from ps_train.engine.step.evaluation import EvalGraph, EvalLimit, evaluate, named_batches
from ps_train.engine.step.metric_sums import make_count
from ps_train.engine.step.slices import NO_SLICES, Slices, slice_metrics
from ps_train.engine.variables.plain_graph import plain_graph
from ps_train.modeling.model import Model
from ps_train.modeling.splits import test_source
from ps_train.modeling.tables.row_source import rows_from
from ps_train.saved.export.coded_rows import FLOAT32, CodedRows, auc_in
from ps_train.saved.export.export import export, form_of


class AucLossError(ConfigError):
    """Rows in fewer bytes lose more AUC than --export_max_auc_loss."""


log = logging.getLogger(__name__)


def export_model(job: Job, model: Model, source: DataSource, checkpoint: str, directory: str) -> str:
    """Exports a checkpoint in the form that a job asks for.

    Args:
      job: `export_rows` is the form.
      model: the user's model.
      source: data with the features that will be served.
      checkpoint: path of the checkpoint.
      directory: of the exports.

    Returns:
      The path of the SavedModel.

    Raises:
      AucLossError: rows in fewer bytes lose too much AUC.
      PsTrainError: see `export`.
    """

    def check(folder: str) -> Mapping[str, Any]:
        return _auc_facts(job, model, checkpoint, os.path.join(folder, "variables", "variables"))

    form = form_of(job)
    return export(model, source, checkpoint, directory, form, check if form.rows != FLOAT32 else None)


def check_auc(job: Job, metrics: Mapping[str, Any]) -> str:
    """Returns the name of the AUC of which --export_rows must not lose much; "" if the job does not need it.

    Args:
      job: has `export_rows`.
      metrics: of the model on its test data, by name; {} if it has no test data.

    Raises:
      ModelError: there is no AUC.
    """
    if job.export_rows == FLOAT32:
        return ""
    name = auc_in(metrics)
    if name is None:
        raise ModelError(
            f"{described(job, 'export_rows')} needs the AUC on the test split, and the model has none: return a test "
            "split by data(), and an auc by metrics(), such as ps_train.metrics.auc; or leave export_rows out."
        )
    return name


def _auc_facts(job: Job, model: Model, checkpoint: str, coded: str) -> dict[str, Any]:
    source = test_source(model, job)
    limit = EvalLimit.of(job, examples_of(checkpoint))
    before = score(model, source, checkpoint, limit)
    name = check_auc(job, before)
    after = score(model, source, coded, limit, job.export_rows)
    loss = before[name] - after[name]
    numbers = f"{loss:.6f} of {name} on the test split ({before[name]:.6f} to {after[name]:.6f})"
    if not loss <= job.export_max_auc_loss:
        raise AucLossError(
            f"{described(job, 'export_rows')} loses {numbers}, more than {described(job, 'export_max_auc_loss')}: "
            "nothing is exported; use bfloat16 or float32, or a larger limit."
        )
    log.info("%s loses %s", described(job, "export_rows"), numbers)
    return {"rows": job.export_rows, name: before[name], f"{name}_of_rows": after[name], f"{name}_loss": loss}


def score(
    model: Model,
    source: DataSource,
    checkpoint: str,
    limit: EvalLimit | None = None,
    rows: str = FLOAT32,
    slices: Slices = NO_SLICES,
) -> dict[str, float]:
    """Returns the model's metrics over the whole test split, with the values of a checkpoint.

    Args:
      model: the user's model.
      source: the test split.
      checkpoint: path of the checkpoint.
      limit: the end of scoring data of an unknown number; None: their end.
      rows: dtype of the rows of tables there, which is not float32 in the variables of an export in fewer bytes.
      slices: the parts of the test data that have metrics of their own.

    Returns:
      The value of each metric, as `metric_values`; {} without test data or metrics.

    Raises:
      DamagedCheckpointError: the checkpoint cannot be read.
    """
    with tf.Graph().as_default() as graph:
        data = source.get()
        if data is None:
            return {}
        batches, count, values = named_batches(source, data), make_count(), CheckpointValues(checkpoint)
        given = contextlib.nullcontext() if rows == FLOAT32 else rows_from(CodedRows(rows))
        with plain_graph(values.kinds, f"checkpoint {checkpoint}") as plain, given:
            outputs = model.forward(batches.features, False)
            plain.build.adds_metrics = True
            metrics = model.metrics(outputs, batches.labels)
            of_slices = slice_metrics(model, plain.build, slices, batches, outputs) if metrics else []
        if not metrics:
            return {}
        with v1.Session() as session:
            values.restore(session, plain.variables)
            scoring = EvalGraph(graph, batches, metrics, count, slices=of_slices, field=slices.field)
            return evaluate(session, scoring, limit)
