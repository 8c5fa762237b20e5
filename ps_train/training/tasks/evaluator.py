"""The role of an evaluator: it scores checkpoints on the test split in a plain session, outside of the cluster.

    metrics = score(model, source, "/models/run1/model.ckpt-2000")      # {"accuracy": 0.97}

It scores the checkpoints that appear in model_dir, and always the last one.  After a score it may export the model
(`eval_exports.py`).  It ends as the run ends; it reads the status of the run from model_dir too (`run_status.py`).
"""

from __future__ import annotations

import collections
import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import gc_control, side_work
from ps_train.base.console import Console
from ps_train.base.errors import (
    EXIT_DONE,
    DamagedCheckpointError,
    PsTrainError,
    UnreachableError,
    exit_code_of_signal,
    headline,
)
from ps_train.cluster.membership.run_status import RunEnd, RunMonitor, read_status
from ps_train.config.file_systems import check_file_systems
from ps_train.config.job import Job, Task
from ps_train.config.slice_names import split_slices
from ps_train.data.pipeline import DataSource
from ps_train.engine.checkpoint.files import prepare_directory
from ps_train.engine.run_directory.checkpoint_contents import examples_of
from ps_train.engine.run_directory.run_checkpoints import run_checkpoints, run_of
from ps_train.engine.run_directory.run_files import EVAL_DIRECTORY
from ps_train.engine.step.evaluation import EvalLimit, find_slices
from ps_train.engine.step.slices import NO_SLICES, Slices
from ps_train.modeling.load_model import load_model
from ps_train.modeling.model import Model
from ps_train.modeling.splits import test_source, training_source
from ps_train.observe.progress.eval_events import run_value
from ps_train.observe.status.run_end import metrics_line
from ps_train.training.duties.export_model import AucLossError, export_model, score
from ps_train.training.joining.model_check import check_test_data
from ps_train.training.joining.model_directory import ReadDirectory, directory_of_evaluator
from ps_train.training.tasks.eval_exports import EvalExports

log = logging.getLogger(__name__)

_LOOK_SECS = 0.5
_EVENTS = "event file of the evaluator"
_TRIES = 5
"""Attempts to read a checkpoint before it counts as damaged: on a network file system files may appear late."""


def run(job: Job, task: Task, console: Console) -> int:
    """Scores every new checkpoint until the run has ended and its last one is scored, or that of max_steps.

    Returns:
      The exit code of the run: 0 if done, 128 + n if stopped by signal n.

    Raises:
      PsTrainError: the run failed, or shows no sign of life.
    """
    with directory_of_evaluator(job) as directory:
        code = _run(job, console, directory)
        directory.end()
        return code


def _run(job: Job, console: Console, model_directory: ReadDirectory) -> int:
    directory = model_directory.path
    model = load_model(job.model, job.model_arguments(), job.sources)
    check_file_systems(job)
    check_test_data(model, job)
    source = test_source(model, job)
    gc_control.resume()
    exports = EvalExports(job, directory, functools.partial(_export, model, job, source))
    divided = _Divided(job, source)

    def scored(path: str) -> dict[str, float]:
        limit = EvalLimit.of(job, examples_of(path))
        return score(model, source, path, limit, slices=divided.slices(limit))

    scorer = _CheckpointScorer(directory, scored, console, exports, job.eval_by)

    def update(has_ended: bool) -> float | None:
        count = scorer.count
        if not scorer.update():
            return None
        return job.eval_every_secs if scorer.count > count else 0.0

    ended = evaluate_until_end(
        job, directory, update, lambda: scorer.step >= job.max_steps, refresh=model_directory.refresh
    )
    scorer.close()
    return EXIT_DONE if ended is None else _end(ended, scorer, directory)


def evaluate_until_end(
    job: Job,
    directory: str,
    update: Callable[[bool], float | None],
    is_over: Callable[[], bool],
    delay: float = 0.0,
    may_start_late: bool = False,
    refresh: Callable[[], None] = lambda: None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> RunEnd | None:
    """Evaluates the checkpoints of a run as they appear.

    Args:
      job: its timeouts and max_steps.
      directory: the model directory.
      update: evaluates a checkpoint, from whether the run has ended; returns the least seconds from its begin to the
        begin of the next evaluation, None if there was nothing to evaluate.
      is_over: returns True if no further evaluation is needed.
      delay: seconds before the first evaluation.
      may_start_late: True to wait for the chief without an end.
      refresh: brings new files into the directory.
      now: returns the seconds of a monotonic clock.
      sleep: waits for some seconds.

    Returns:
      How the run ended, when `update` has found no checkpoint after that; None if `is_over` came first.
    """
    monitor, next_begin = RunMonitor(job, now(), may_start_late), now() + delay
    while not is_over():
        refresh()
        ended = monitor.update(read_status(directory), now())  # before the search for the last checkpoint
        begun = now()
        if ended is not None or begun >= next_begin:
            secs = update(ended is not None)
            if secs is not None:
                next_begin = begun + secs
                continue
        if ended is not None:
            return None if is_over() else ended
        sleep(_LOOK_SECS)
    return None


def _export(model: Model, job: Job, source: DataSource, checkpoint: str, directory: str) -> str:
    """Exports a checkpoint; the features are those of the test split, or of the training split if there is none."""
    with tf.Graph().as_default():
        has_test_data = source.get() is not None
    return export_model(job, model, source if has_test_data else training_source(model, job), checkpoint, directory)


def _end(ended: RunEnd, scorer: _CheckpointScorer, directory: str) -> int:
    """Returns the exit code of the run, or raises its error; the last checkpoint of a finished run must be scored."""
    if code := ended.exit_code():
        log.warning("the job was stopped by signal %d", code - exit_code_of_signal(0))
        return code
    if scorer.failure is not None:
        raise scorer.failure
    if scorer.step < 0:
        raise UnreachableError(f"the job is done, but there is no checkpoint in {directory}")
    return EXIT_DONE


class _Divided:
    """The parts of the test data (--eval_by), which are the same for all checkpoints."""

    def __init__(self, job: Job, source: DataSource) -> None:
        self._field, self._source = job.eval_by, source
        self._found = NO_SLICES

    def slices(self, limit: EvalLimit) -> Slices:
        """Returns the parts."""
        if not self._found.field:
            self._found = find_slices(self._source, self._field, limit)
        return self._found


class _CheckpointScorer:
    """Scorer of the newest readable checkpoint.

    Args:
      directory: the model directory.
      score: returns the metrics of the checkpoint at a path.
      console: receives the metrics.
      exports: exports of the scored checkpoints.
      field: the field of --eval_by, whose metrics are not shown on the console.

    Attributes:
      step: step of the last scored checkpoint; -1 before.
      count: number of scored checkpoints.
      failure: the error for which the newest checkpoint was skipped; None if it was not.
    """

    def __init__(
        self,
        directory: str,
        score: Callable[[str], dict[str, float]],
        console: Console,
        exports: EvalExports,
        field: str = "",
    ) -> None:
        self._directory, self._score, self._console, self._exports = directory, score, console, exports
        self._field = field
        self._scored: set[tuple[int, int]] = set()
        self._tries: collections.Counter[tuple[int, int]] = collections.Counter()
        self._writer: Any = None
        self._run = ("", "")
        self.step, self.count = -1, 0
        self.failure: DamagedCheckpointError | None = None

    def update(self) -> bool:
        """Scores a checkpoint, or tries to; returns False if none is newer than the last scored one."""
        self.failure = None
        self._export(self._exports.retry)
        for step, path in run_checkpoints(self._directory):
            version = (step, _written(path))
            if version in self._scored:  # perhaps before newer ones, to which a recovery has not come back
                self.step = step
                return False
            if self._tries[version] < _TRIES:
                self._try(version, path)
                return True
            self.failure = self.failure or DamagedCheckpointError(f"checkpoint {path} could not be scored: see above")
        return False

    def _try(self, version: tuple[int, int], path: str) -> None:
        try:
            kept = self._exports.pinned(path)
            run = run_of(kept)
            metrics = self._score(kept)
        except DamagedCheckpointError as error:
            self._tries[version] += 1
            if self._tries[version] == _TRIES:
                log.warning("%s; trying the one before it", error)
            time.sleep(_LOOK_SECS)
            return
        self._scored.add(version)
        self.step, self.count = version[0], self.count + 1
        self._console.line(
            f"evaluation at step {self.step}: " + (metrics_line(split_slices(metrics, self._field)[0]) or "no metrics")
        )
        self._write_events(metrics, run)
        self._export(lambda: self._exports.add(self.step, kept, metrics))

    def close(self) -> None:
        """Makes the last export, if it could not be written before.

        Raises:
          SaveError: it cannot be written now either.
        """
        self._export(self._exports.close)

    def _export(self, make: Callable[[], str | None]) -> None:
        try:
            exported = make()
        except (DamagedCheckpointError, AucLossError) as error:  # it is damaged, or its rows lose too much
            log.warning("no export of step %d: %s", self.step, error)
            return
        if exported is not None:
            self._console.line(f"exported {exported}")

    def _write_events(self, metrics: dict[str, float], run: tuple[str, str]) -> None:
        """Writes the metrics; a disk that refuses them loses these points, and the next ones begin a new file."""
        values = [v1.Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        values += [run_value(run)] if run[0] else []
        try:
            if self._writer is None or run != self._run:  # the files of an ignored run are in another place now
                self._writer, self._run = _writer(self._directory), run
            self._writer.add_summary(v1.Summary(value=values), self.step)
            self._writer.flush()
            side_work.works(_EVENTS)
        except (RuntimeError, OSError, tf.errors.OpError, PsTrainError) as error:  # TensorFlow's writer raises all
            self._writer = None
            side_work.failed(_EVENTS, f"it cannot be written ({headline(error)})")


def _written(path: str) -> int:
    """Returns the time of a checkpoint in ns: a resumed run may write the checkpoint of a step again."""
    try:
        return os.stat(path + ".index").st_mtime_ns
    except OSError:  # the chief removes it at this moment
        return 0


def _writer(directory: str) -> Any:
    path = prepare_directory(os.path.join(directory, EVAL_DIRECTORY))
    with tf.Graph().as_default():
        return v1.summary.FileWriter(path)
