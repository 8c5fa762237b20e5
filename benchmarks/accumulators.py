"""`python -m benchmarks accumulators`: test scores of Adagrad by the first value of its accumulators.

Each run trains in one process, with the optimizers and the lookups of ps_train, from the same initial values.  One
worker's steps are the same numbers as a job's with one worker.  `--jobs` trains some of them as jobs too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks import machine, results
from benchmarks.errors import ContenderError, UsageError
from benchmarks.processes import Processes, Program
from benchmarks.table import markdown
from ps_train.config.job import Job
from ps_train.config.optimizer_arguments import ADAGRAD_START

STARTS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_JOB_SECS = 1200.0
_TEST_BATCH = 2000


@dataclasses.dataclass(frozen=True)
class Data:
    """A model with its data, and how it is trained.

    Attributes:
      model: package.module:Class.
      metric: the score; of an error the least is the best.
      rates: learning rates.
    """

    model: str
    metric: str
    batch_size: int
    steps: int
    rates: tuple[float, ...] = (0.05, 0.1)


DATA = {
    "criteo": Data("benchmarks.rare_rows:Criteo", "auc", 256, 1400),
    "long_tail": Data("benchmarks.rare_rows:LongTail", "auc", 512, 700),
    "ratings": Data("benchmarks.rare_rows:Ratings", "rmse", 512, 700),
    "dense": Data("examples.clicks:Clicks", "auc", 64, 1000),
}
OPTIMIZERS = {"adagrad": (0, 1), "rowwise_adagrad": (1,), "ftrl": (1,)}
"""Optimizer to the indices of the learning rates that it is measured with."""


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "rows": [], "best": {}}
    record["load"] = [machine.load_average()]
    chosen_data = options.data.split(",") if options.data else [*DATA]
    if unknown := set(chosen_data) - set(DATA):
        raise UsageError(f"--data={options.data} is not valid: use some of {', '.join(DATA)}; not {unknown.pop()!r}.")
    for name in chosen_data:
        data = DATA[name]
        trial = _Trial(data)
        record["best"][name] = trial.best
        for optimizer, chosen in OPTIMIZERS.items():
            for rate in (data.rates[index] for index in chosen):
                row = {"data": name, "optimizer": optimizer, "rate": rate, "by": "one process"}
                record["rows"].append({**row, "scores": [trial.score(optimizer, rate, start) for start in STARTS]})
                print(record["rows"][-1], flush=True)
    if options.jobs:
        for name in chosen_data:
            row = {"data": name, "optimizer": "adagrad", "rate": 0.05, "by": "job: 1 ps, 2 workers, async"}
            scores = [_job(DATA[name], 0.05, start) if start in (ADAGRAD_START, 1e-4, 1e-1) else None
                      for start in STARTS]  # fmt: skip
            record["rows"].append({**row, "scores": scores})
    record["load"].append(machine.load_average())
    text = report(record)
    results.store("accumulators", record, text, "", options.results)
    print(text)
    return 0


class _Trial:
    """Trains one model again and again.

    Attributes:
      best: the score of the known model that drew the data; None where there is none.
    """

    def __init__(self, data: Data) -> None:
        from ps_train.modeling.load_model import load_model

        self._data, self._model = data, load_model(data.model, {})
        self._train: Any = self._model.data("train", "")
        self._test: Any = self._model.data("test", "")
        best = getattr(self._model, "best_score", None)
        self.best = None if best is None else float(best())

    def score(self, optimizer: str, rate: float, start: float) -> float:
        import tensorflow as tf
        import tensorflow.compat.v1 as v1

        from ps_train.engine.updates.gradients.apply_gradients import optimizer_groups
        from ps_train.engine.variables.plain_graph import is_trained, plain_graph

        job = Job(optimizer=optimizer, optimizer_arg=(f"initial_accumulator_value={start}",))
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(1)
            features, labels = tf.nest.map_structure(
                lambda values: v1.placeholder(values.dtype, [None, *values.shape[1:]]), _of(self._train)
            )
            with plain_graph() as plain:
                outputs = self._model.forward(features, training=True)
                loss = self._model.loss(outputs, labels)
                value, update = self._model.metrics(outputs, labels)[self._data.metric]
            groups = optimizer_groups(self._model.optimizer(job.optimizer_name(""), rate))
            members: dict[str, list[Any]] = {}
            for variable in filter(is_trained, plain.variables.values()):
                members.setdefault(groups.group_of(variable.op.name), []).append(variable)
            step = [groups.optimizers[group].minimize(loss, var_list=some) for group, some in members.items()]
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            holders = tf.nest.flatten((features, labels))

            def feeds(rows: Any) -> dict[Any, Any]:
                return dict(zip(holders, (part[rows] for part in tf.nest.flatten(_of(self._train))), strict=True))

            for rows in _shuffled(len(self._train.labels), self._data.batch_size, self._data.steps):
                session.run(step, feeds(rows))
            parts = tf.nest.flatten(_of(self._test))
            for begin in range(0, len(self._test.labels), _TEST_BATCH):
                some = [part[begin : begin + _TEST_BATCH] for part in parts]
                session.run(update, dict(zip(holders, some, strict=True)))
            return float(session.run(value))


def _of(arrays: Any) -> tuple[Any, Any]:
    return arrays.features, arrays.labels


def _shuffled(count: int, size: int, steps: int) -> Iterator[Any]:
    """Rows of each batch; every epoch has an order of its own."""
    random = np.random.default_rng(1)
    rows = np.concatenate([random.permutation(count) for _ in range(-(-size * steps // count))])
    return (rows[step * size : (step + 1) * size] for step in range(steps))


def _job(data: Data, rate: float, start: float) -> float:
    """Trains a whole job of the same examples.  Raises ContenderError if it does not get to its end."""
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        command = [sys.executable, "-m", "ps_train", f"--model={data.model}", f"--batch_size={data.batch_size}"]
        command += [f"--max_steps={data.steps}", "--optimizer=adagrad", f"--learning_rate={rate}", "--model_dir=model"]
        command += [f"--optimizer_arg=initial_accumulator_value={start}", "--save_secs=3600"]
        running = processes.start(Program("job", command))
        running.wait_for(lambda line: line.text.startswith("checkpoint "), _JOB_SECS)
        path = pathlib.Path(directory, "model", "result.json")
        if not path.exists():
            raise ContenderError(f"{' '.join(command)} wrote no result.json")
        return float(json.loads(path.read_text())["metrics"][data.metric])


def report(record: dict[str, Any]) -> str:
    """The scores by the first value of the accumulators; the best of each row is in brackets."""
    rows = []
    for row in record["rows"]:
        metric = DATA[row["data"]].metric
        best = (min if metric == "rmse" else max)(score for score in row["scores"] if score is not None)
        cells = ["" if s is None else f"[{s:.4f}]" if s == best else f"{s:.4f}" for s in row["scores"]]
        rows.append([f"{row['data']} {metric}, {row['optimizer']} {row['rate']:g}, {row['by']}", *cells])
    best_scores = ", ".join(f"{name} {score:.4f}" for name, score in record["best"].items() if score is not None)
    lines = [f"# First value of the accumulators, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"Load average before and after: {record['load'][0]}, {record['load'][-1]}.", ""]
    lines += [f"Scores of the models that drew the data: {best_scores}.", ""]
    starts: Sequence[str] = [f"{start:g}" for start in STARTS]
    return "\n".join([*lines, markdown(["test score by initial_accumulator_value", *starts], rows), ""])
