"""Exports of an evaluator: the model of each evaluation, or each that is the best so far.

exports = EvalExports(job, "/models/run1", write=lambda checkpoint, directory: export(..., checkpoint, directory))
pinned = exports.pinned("/models/run1/model.ckpt-2000")     # stays until it is exported
exports.add(2000, pinned, {"auc": 0.8})                     # path of the SavedModel, or None
exports.close()                                             # SaveError if a wanted one is not written

The model of step 0 is not trained, and never exported.  A model is the best if it is better than those that were
exported, which a file beside the evaluator's event files tells after a restart.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from ps_train.base import side_work
from ps_train.base.errors import DamagedCheckpointError, ModelError, SaveError, cause_of, headline
from ps_train.base.untrusted import UntrustedError, as_record, is_of, parse_json, read_text, sealed, unsealed
from ps_train.base.whole_file import write_whole
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.metric_rule import parse_export
from ps_train.data.opened_files import errors_of
from ps_train.engine.run_directory.pinned import Pins
from ps_train.engine.run_directory.run_checkpoints import run_of
from ps_train.engine.run_directory.run_files import EVAL_DIRECTORY
from ps_train.engine.run_directory.run_record import read_record
from ps_train.saved.export.export import prepare_export, remove_export

log = logging.getLogger(__name__)

_KEPT = 5
_FILE = "exports.json"
"""File in the directory of the evaluator's event files: the metrics of the models that were exported."""

_NAME = "export"
_RETRY_SECS = 10.0


class _Wanted(NamedTuple):
    """A model to export: its step, checkpoint and metrics."""

    step: int
    checkpoint: str
    metrics: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class _Made:
    """An export: the step of the model, its run and generation, and its metrics."""

    step: int
    run: str
    generation: str
    metrics: dict[str, float]


class EvalExports:
    """Decides after each evaluation whether to export the model, and keeps the last 5 of its exports.

    Args:
      job: the job, with --export and --export_dir.
      model_dir: directory of the checkpoints and of the event files.
      write: exports a checkpoint into a numbered directory below another; returns the path.
    """

    def __init__(self, job: Job, model_dir: str, write: Callable[[str, str], str]) -> None:
        choice = parse_export(job.export)
        assert choice is not None, "the job has checked it"
        self._job, self._kind, self._rule = job, choice.kind, choice.rule
        self._file, self._write = os.path.join(model_dir, EVAL_DIRECTORY, _FILE), write
        self._directory = prepare_export(job.export_dir) if self._kind != "final" else ""
        self._model_dir, self._pins = model_dir, Pins(model_dir)
        self._made = self._read()
        self._written: list[str] = []
        self._pending: _Wanted | None = None
        self._next_try = 0.0

    def pinned(self, checkpoint: str) -> str:
        """Returns a path of a checkpoint that stays until it is scored and exported, if exports are asked for.

        Raises:
          DamagedCheckpointError: the chief has removed the checkpoint.
        """
        if self._kind == "final":
            return checkpoint
        try:
            return self._pins.pin(checkpoint)
        except FileNotFoundError as error:
            raise DamagedCheckpointError(f"checkpoint {checkpoint} was removed ({headline(error)})") from None
        except OSError as error:
            side_work.failed(_NAME, f"checkpoint {checkpoint} cannot be kept ({headline(error)})")
            return checkpoint

    def add(self, step: int, checkpoint: str, metrics: Mapping[str, float]) -> str | None:
        """Exports an evaluated checkpoint if it is asked for.  One that cannot be written is tried again later.

        Returns:
          The path of the SavedModel; None if there is none for this checkpoint.

        Raises:
          ModelError: the evaluation has no such metric.
          DamagedCheckpointError: the checkpoint is damaged.
        """
        is_wanted = self._kind != "final" and (self._kind != "best" or self._is_best(step, metrics)) and step > 0
        if is_wanted:
            self._pending, self._next_try = _Wanted(step, checkpoint, metrics), 0.0
        return self.retry()

    def retry(self) -> str | None:
        """Exports the checkpoint that could not be written before, if it is time to; as `add`."""
        wanted = self._pending
        if wanted is None or time.monotonic() < self._next_try:
            self._pins.keep_only([wanted.checkpoint] if wanted is not None else [])
            return None
        self._pending = None
        try:
            path = self._write(wanted.checkpoint, self._directory)
        except (SaveError, OSError, tf.errors.OpError) as error:
            self._pending, self._next_try = wanted, time.monotonic() + _RETRY_SECS
            side_work.failed(_NAME, f"the model of step {wanted.step} cannot be written ({headline(error)})")
            return None
        finally:
            self._pins.keep_only([self._pending.checkpoint] if self._pending is not None else [])
        side_work.works(_NAME)
        self._note(wanted)
        self._written.append(path)
        if len(self._written) > _KEPT:
            _remove(self._written.pop(0))
        return path

    def close(self) -> str | None:
        """Exports the checkpoint that could not be written before; returns its path, or None without one.

        Raises:
          SaveError: it cannot be written now either.
        """
        self._next_try = 0.0
        path = self.retry()
        self._pins.keep_only()
        if self._pending is not None:
            raise SaveError(f"{described(self._job, 'export')}: {side_work.failing()[_NAME].reason}")
        return path

    def _is_best(self, step: int, metrics: Mapping[str, float]) -> bool:
        try:
            name = self._rule.select(metrics)
        except KeyError:
            known = ", ".join(metrics) or "none; add metrics() to the model and a test split"
            raise ModelError(f"{described(self._job, 'export')} has no such metric: use one of {known}.") from None
        record = read_record(self._model_dir)  # steps may have been rolled back
        waiting = [] if self._pending is None else [self._made_of(self._pending)]
        earlier = (
            one.metrics[name]
            for one in (*self._made, *waiting)
            if one.step != step and name in one.metrics and record.accepts(one.run, one.generation, one.step)
        )
        return bool(self._rule.is_better(name, metrics[name], self._rule.best(name, earlier)))

    def _made_of(self, wanted: _Wanted) -> _Made:
        return _Made(wanted.step, *run_of(wanted.checkpoint), {name: float(v) for name, v in wanted.metrics.items()})

    def _note(self, wanted: _Wanted) -> None:
        if self._kind != "best":
            return
        self._made = [one for one in self._made if one.step != wanted.step] + [self._made_of(wanted)]
        content = sealed({"exports": [dataclasses.asdict(one) for one in self._made]})
        try:
            os.makedirs(os.path.dirname(self._file), exist_ok=True)
            write_whole(self._file, json.dumps(content))
        except OSError as error:
            log.warning("%s cannot be written: %s", self._file, error.strerror)

    def _read(self) -> list[_Made]:
        try:
            found = unsealed(parse_json(read_text(self._file), finite=False))["exports"]
            if not is_of("list[dict]", found):
                raise UntrustedError("it has other fields")
            return [as_record(_Made, one) for one in found]
        except OSError:
            return []
        except (UntrustedError, KeyError) as error:
            log.warning("%s is damaged (%s): earlier exports do not count", self._file, error)
            return []


def _remove(path: str) -> None:
    try:
        remove_export(path)
    except (*errors_of(path), tf.errors.OpError) as error:
        log.warning("the old export %s cannot be removed: %s", path, cause_of(error))
