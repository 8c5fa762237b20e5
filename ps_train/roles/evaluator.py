"""Scores checkpoints on the test split, in a plain session of its own; never a member of the cluster.

    metrics = score(model, source, "/models/run1/model.ckpt-2000")      # {"accuracy": 0.97}

As a role it scores every checkpoint that appears in model_dir and always the last one.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint import found_in, kinds_in, restore_plain
from ps_train.cluster import garbage
from ps_train.config import Job, Task
from ps_train.console import Console
from ps_train.data.shard import Source, evaluation_batches
from ps_train.errors import EXIT_DONE, ConfigError, UnreachableError
from ps_train.graph.plain import in_plain_graph
from ps_train.graph.scoring import BATCH, Scoring, measure
from ps_train.model import Model, load_model
from ps_train.roles.finish import result_step

log = logging.getLogger(__name__)

_LOOK_SECS = 0.5


def score(model: Model, source: Source, checkpoint: str) -> dict[str, float]:
    """The model's metrics over the whole test split, with the values of a checkpoint; {} where there are none.
    `source`: of the test split."""
    with tf.Graph().as_default() as graph:
        data = source.get()
        if data is None:
            return {}
        batches = evaluation_batches(data, BATCH)
        with in_plain_graph(kinds_in(checkpoint), f"checkpoint {checkpoint}") as plain:
            outputs = model.forward(batches.features, training=False)
            plain.build.adds_metrics = True
            metrics = model.metrics(outputs, batches.labels)
        if not metrics:
            return {}
        with v1.Session() as session:
            restore_plain(session, plain.variables, checkpoint)
            return measure(session, Scoring(graph, batches, metrics))


def run(job: Job, task: Task, console: Console) -> int:
    """Until the checkpoint of max_steps, or the last one of a job that has ended, is scored."""
    if not job.model_dir:
        raise ConfigError("model_dir is not given: an evaluator needs --model_dir, the directory of the checkpoints.")
    model = load_model(job.model, job.model_arguments())
    source = Source(lambda: model.data("test", job.data_dir), job.max_bad_lines)
    directory = os.path.abspath(job.model_dir)
    garbage.begin()
    writer: Any = None
    scored, heard = -1, time.monotonic()
    while True:
        ended = _ended(directory)
        newest = found_in(directory)[:1]
        if newest and newest[0][0] > scored:
            step, path = newest[0]
            try:
                metrics = score(model, source, path)
            except (tf.errors.OpError, OSError) as error:
                log.warning("checkpoint %s cannot be read yet or any more (%s)", path, type(error).__name__)
                time.sleep(_LOOK_SECS)
                continue
            scored, heard = step, time.monotonic()
            console.line(f"evaluation at step {step}: " + (text(metrics) or "no metrics"))
            writer = writer or _writer(directory)
            values = [v1.Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
            writer.add_summary(v1.Summary(value=values), step)
            writer.flush()
        elif scored >= job.max_steps or (ended and scored >= 0):
            return EXIT_DONE
        elif scored < 0 and time.monotonic() - heard > job.startup_timeout_secs:
            raise UnreachableError(f"no checkpoint has appeared in {directory} within {job.startup_timeout_secs:g}s")
        else:
            time.sleep(_LOOK_SECS)


def text(metrics: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def _writer(directory: str) -> Any:
    with tf.Graph().as_default():
        return v1.summary.FileWriter(os.path.join(directory, "eval"))


def _ended(directory: str) -> bool:
    """Whether the chief has written its result, and the newest checkpoint is the one it speaks of."""
    newest = found_in(directory)[:1]
    return bool(newest) and result_step(directory) == newest[0][0]
