"""Exports of an evaluator: the model of each evaluation, or each that is the best so far.

exports = EvalExports(job, "/models/run1", write=lambda checkpoint, directory: export(..., checkpoint, directory))
exports.add(2000, "/models/run1/model.ckpt-2000", {"auc": 0.8})     # path of the SavedModel, or None
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping

import tensorflow as tf

from ps_train.base.errors import ModelError, cause_of
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.metric_rule import parse_export
from ps_train.data.opened_files import errors_of
from ps_train.engine.checkpoint.export import prepare_export, remove_export
from ps_train.engine.checkpoint.run_files import EVAL_DIRECTORY
from ps_train.engine.checkpoint.run_record import RunRecord, read_record
from ps_train.observe.progress.eval_events import read_eval_metrics

log = logging.getLogger(__name__)

_KEPT = 5


class EvalExports:
    """Decides after each evaluation whether to export the model, and keeps the last 5 of its exports.

    Args:
      job: the job, with --export and --export_dir.
      model_dir: directory of the event files: after a restart, earlier values of the metric count.
      write: exports a checkpoint into a numbered directory below another; returns the path.
    """

    def __init__(self, job: Job, model_dir: str, write: Callable[[str, str], str]) -> None:
        choice = parse_export(job.export)
        assert choice is not None, "the job has checked it"
        self._job, self._kind, self._rule = job, choice.kind, choice.rule
        self._events, self._write = os.path.join(model_dir, EVAL_DIRECTORY), write
        self._directory = prepare_export(job.export_dir) if self._kind != "final" else ""
        self._best: float | None = None
        self._model_dir = model_dir
        self._record: RunRecord | None = None
        self._written: list[str] = []

    def add(self, step: int, checkpoint: str, metrics: Mapping[str, float]) -> str | None:
        """Exports an evaluated checkpoint if it is asked for.

        Returns:
          The path of the SavedModel; None if there is none for this checkpoint.

        Raises:
          ModelError: the evaluation has no such metric.
        """
        if self._kind == "final" or (self._kind == "best" and not self._is_best(step, metrics)):
            return None
        path = self._write(checkpoint, self._directory)
        self._written.append(path)
        if len(self._written) > _KEPT:
            _remove(self._written.pop(0))
        return path

    def _is_best(self, step: int, metrics: Mapping[str, float]) -> bool:
        try:
            name = self._rule.select(metrics)
        except KeyError:
            known = ", ".join(metrics) or "none; add metrics() to the model and a test split"
            raise ModelError(f"{described(self._job, 'export')} has no such metric: use one of {known}.") from None
        record = read_record(self._model_dir)
        if self._record != record:  # the events of this evaluation are already written
            self._record = record
            earlier = {s: found[name] for s, found in read_eval_metrics(self._events).items() if name in found}
            self._best = self._rule.best(name, (value for s, value in earlier.items() if s != step))
        if not self._rule.is_better(name, metrics[name], self._best):
            return False
        self._best = metrics[name]
        return True


def _remove(path: str) -> None:
    try:
        remove_export(path)
    except (*errors_of(path), tf.errors.OpError) as error:
        log.warning("the old export %s cannot be removed: %s", path, cause_of(error))
