"""Scores checkpoints on the test split, in a plain session of its own; never a member of the cluster.

    metrics = score(model, source, "/models/run1/model.ckpt-2000")      # {"accuracy": 0.97}

As a role it scores every checkpoint that appears in model_dir and always the last one, and ends as the run ends, which
it reads in model_dir too (`run_status.py`).
"""

from __future__ import annotations

import collections
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint.contents import restore_into, shapes_and_dtypes
from ps_train.checkpoint.files import checkpoints_in, prepare_directory
from ps_train.config.job import Job, described
from ps_train.config.task import Task
from ps_train.coordination.run_status import FAILED, STOPPED, RunMonitor, Status, read_status
from ps_train.data.pipeline import DataSource, evaluation_batches
from ps_train.errors import (
    EXIT_CONFIG,
    EXIT_DONE,
    EXIT_FAILED,
    ConfigError,
    DamagedCheckpointError,
    JobFailedError,
    PsTrainError,
    UnreachableError,
    exit_code_of_signal,
)
from ps_train.graph.evaluation import BATCH, EvalGraph, evaluate
from ps_train.model import Model, load_model
from ps_train.placement.plain import plain_graph
from ps_train.runtime import gc_control
from ps_train.runtime.console import Console
from ps_train.training.result import metrics_line

log = logging.getLogger(__name__)

_LOOK_SECS = 0.5
_TRIES = 5
"""Looks at a checkpoint that cannot be read, before it counts as damaged: on a network file system it may come late."""


def score(model: Model, source: DataSource, checkpoint: str) -> dict[str, float]:
    """The model's metrics over the whole test split, with the values of a checkpoint; {} where there are none.
    `source`: of the test split."""
    with tf.Graph().as_default() as graph:
        data = source.get()
        if data is None:
            return {}
        batches = evaluation_batches(data, BATCH)
        with plain_graph(shapes_and_dtypes(checkpoint), f"checkpoint {checkpoint}") as plain:
            outputs = model.forward(batches.features, training=False)
            plain.build.adds_metrics = True
            metrics = model.metrics(outputs, batches.labels)
        if not metrics:
            return {}
        with v1.Session() as session:
            restore_into(session, plain.variables, checkpoint)
            return evaluate(session, EvalGraph(graph, batches, metrics))


def run(job: Job, task: Task, console: Console) -> int:
    """Scores every checkpoint that appears until the run has ended and its last one is scored, or that of max_steps.

    Ends as the run did: 0 done, 128 + n stopped by signal n; raises where it failed or gives no sign of life.
    """
    directory = _directory(job)
    model = load_model(job.model, job.model_arguments())
    source = DataSource(lambda: model.data("test", job.data_dir), job.max_bad_lines)
    gc_control.resume()
    newest = _CheckpointScorer(directory, lambda path: score(model, source, path), console)
    watch = RunMonitor(job, time.monotonic())
    while True:
        ended = watch.update(read_status(directory), time.monotonic())  # before the last checkpoint is looked for
        if newest.update():
            continue
        if newest.step >= job.max_steps:
            return EXIT_DONE
        if ended is not None:
            return _end(ended, newest, directory)
        time.sleep(_LOOK_SECS)


def _directory(job: Job) -> str:
    if not job.model_dir:
        raise ConfigError("model_dir is not given: an evaluator needs --model_dir, the directory of the checkpoints.")
    directory = os.path.abspath(job.model_dir)
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise ConfigError(f"{described(job, 'model_dir')} is not a directory: use that of the checkpoints.")
    if os.path.exists(directory) and not os.access(directory, os.R_OK | os.X_OK):
        raise ConfigError(f"{described(job, 'model_dir')} cannot be read: use the directory of the checkpoints.")
    return directory


def _end(ended: Status | PsTrainError, newest: _CheckpointScorer, directory: str) -> int:
    """Ends as the run did; where it is done, its last checkpoint must have been scored."""
    if isinstance(ended, PsTrainError):
        raise ended
    if ended.state == FAILED:
        raise _failure(ended)
    if ended.state == STOPPED:
        log.warning("the job was stopped by signal %d", ended.signum)
        return exit_code_of_signal(ended.signum)
    if newest.failure is not None:
        raise newest.failure
    if newest.step < 0:
        raise UnreachableError(f"the job is done, but there is no checkpoint in {directory}")
    return EXIT_DONE


def _failure(ended: Status) -> JobFailedError:
    told = "the job failed: "
    error = JobFailedError(told + ended.cause.removeprefix(told))
    error.exit_code = EXIT_CONFIG if ended.config else EXIT_FAILED
    return error


class _CheckpointScorer:
    """Scores the newest checkpoint that can be read.

    Attributes:
      step: of the last one that was scored; -1 before.
      failure: why the newest one was given up, if it was.
    """

    def __init__(self, directory: str, score: Callable[[str], dict[str, float]], console: Console) -> None:
        self._directory, self._score, self._console = directory, score, console
        self._scored: tuple[int, int] | None = None
        self._tries: collections.Counter[tuple[int, int]] = collections.Counter()
        self._writer: Any = None
        self.step = -1
        self.failure: DamagedCheckpointError | None = None

    def update(self) -> bool:
        """Scores a checkpoint, or tries to; False where there is no other that is newer than the one scored last."""
        self.failure = None
        for step, path in checkpoints_in(self._directory):
            mark = (step, _written(path))
            if mark == self._scored:
                return False
            if self._tries[mark] < _TRIES:
                self._try(mark, path)
                return True
            self.failure = self.failure or DamagedCheckpointError(f"checkpoint {path} could not be scored: see above")
        return False

    def _try(self, mark: tuple[int, int], path: str) -> None:
        try:
            metrics = self._score(path)
        except DamagedCheckpointError as error:
            self._tries[mark] += 1
            if self._tries[mark] == _TRIES:
                log.warning("%s; trying the one before it", error)
            time.sleep(_LOOK_SECS)
            return
        self._scored, self.step = mark, mark[0]
        self._console.line(f"evaluation at step {self.step}: " + (metrics_line(metrics) or "no metrics"))
        self._writer = self._writer or _writer(self._directory)
        values = [v1.Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._writer.add_summary(v1.Summary(value=values), self.step)
        self._writer.flush()


def _written(path: str) -> int:
    """When a checkpoint was written: a resumed run may write that of a step again."""
    try:
        return os.stat(path + ".index").st_mtime_ns
    except OSError:  # it is removed at this moment
        return 0


def _writer(directory: str) -> Any:
    path = prepare_directory(os.path.join(directory, "eval"))
    with tf.Graph().as_default():
        return v1.summary.FileWriter(path)
