"""Evaluations of another run, and of steps that were rolled back, count for no reader."""

from __future__ import annotations

import pathlib
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator import early_stopping
from ps_train.config.job import Job
from ps_train.engine.run_directory.run_record import begin_generation, write_run_id
from ps_train.observe.progress.early_stop import EarlyStopHook
from ps_train.observe.progress.eval_events import EvalLog, read_eval_metrics, run_value
from ps_train.training.tasks.eval_exports import EvalExports

MINE = {500: 3.0, 2000: 3.0}


def write(model_dir: pathlib.Path, run: str, generation: str, losses: dict[int, float]) -> None:
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(model_dir / "eval"), filename_suffix=f".{run}.{generation}")
    for step, loss in losses.items():
        value = v1.Summary.Value(tag="loss", simple_value=loss)
        writer.add_summary(v1.Summary(value=[value, run_value((run, generation))]), step)
    writer.close()


def prepared(model_dir: pathlib.Path) -> str:
    """A run that fell back from step 2000 to 1000, in a directory with evaluations of another run."""
    write_run_id(str(model_dir), "mine")
    begin_generation(str(model_dir), "a", 0)
    begin_generation(str(model_dir), "b", 1000)
    write(model_dir, "other", "x", {100: 0.1, 200: 9.0, 300: 9.0})
    write(model_dir, "mine", "a", {500: 3.0, 1500: 0.2, 2000: 0.2})
    write(model_dir, "mine", "b", {2000: 3.0})
    return str(model_dir)


def test_only_the_evaluations_of_the_run_are_read(tmp_path: pathlib.Path) -> None:
    directory = prepared(tmp_path)
    expected = {step: {"loss": loss} for step, loss in MINE.items()}
    assert read_eval_metrics(f"{directory}/eval") == expected
    assert read_eval_metrics(directory, "eval/*.tfevents.*", directory) == expected
    assert EvalLog(directory).read() == expected


def test_early_stop_ends_no_run_for_evaluations_of_another(tmp_path: pathlib.Path) -> None:
    ended: list[str] = []
    step: Any = None
    hook = EarlyStopHook("loss:2", f"{prepared(tmp_path)}/eval", step, ended.append)
    hook.after_run(None, type("Values", (), {"results": 2500}))
    assert ended == []


def test_the_best_export_is_the_best_of_the_run(tmp_path: pathlib.Path) -> None:
    job = Job(export="best:loss", export_dir=str(tmp_path / "out"), model_dir=prepared(tmp_path))
    exports = EvalExports(job, str(tmp_path), lambda checkpoint, directory: checkpoint)
    assert exports.add(2500, "better than its own", {"loss": 2.0}) == "better than its own"
    assert exports.add(2600, "worse", {"loss": 2.5}) is None


def test_a_stop_hook_reads_the_evaluations_of_the_run(tmp_path: pathlib.Path) -> None:
    directory = prepared(tmp_path)
    estimator = type("Estimator", (), {"model_dir": directory, "eval_dir": lambda self: f"{directory}/eval"})()
    watch = early_stopping._Watch.__new__(early_stopping._Watch)
    watch._model_dir, watch._eval_dir = estimator.model_dir, estimator.eval_dir()
    watch._metric, watch._min_steps = "loss", 0
    seen: list[list[tuple[int, float]]] = []
    watch._reason_of = lambda values: seen.append(values) or ""
    assert not watch()
    assert seen == [list(MINE.items())]
