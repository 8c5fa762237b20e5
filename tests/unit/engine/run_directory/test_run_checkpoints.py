"""Every reader picks the same newest checkpoint: not a damaged one, one of another run, or one that was rolled back."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.console import Console
from ps_train.compat.capture.sessions import EstimatorSessionCreator
from ps_train.config.job import Job
from ps_train.engine.checkpoint.files import needed_checkpoint, saved_step
from ps_train.engine.run_directory.run_checkpoints import foreign_checkpoints, newest_checkpoint, run_checkpoints
from ps_train.engine.run_directory.run_files import read_run_id
from ps_train.estimator import Estimator, EstimatorSpec, ModeKeys, export
from ps_train.training.tasks import evaluator as role
from ps_train.training.tasks.eval_exports import EvalExports
from tests.support.saved.checkpoints import mixed_directory, write_checkpoint


def test_the_run_s_own_checkpoints_are_listed_with_damaged_ones_and_without_others(tmp_path: pathlib.Path) -> None:
    mixed_directory(tmp_path)
    assert [step for step, _ in run_checkpoints(str(tmp_path))] == [35, 30, 20, 10]
    assert [step for step, _ in foreign_checkpoints(str(tmp_path))] == [60, 40]


def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    w = v1.get_variable("w", [8])
    step = v1.train.get_global_step()
    return EstimatorSpec(
        mode,
        predictions=w + 0 * features["x"],
        loss=tf.reduce_mean(w + 0 * features["x"]) if mode != ModeKeys.PREDICT else None,
        train_op=v1.assign_add(step, 1) if mode == ModeKeys.TRAIN else None,
    )


def batches() -> Any:
    features = {"x": np.zeros([1, 8], np.float32)}
    return tf.data.Dataset.from_tensors((features, np.zeros([1], np.float32)))


def receiver() -> Any:
    return export.build_raw_serving_input_receiver_fn({"x": v1.placeholder(tf.float32, [None, 8])})()


def of_session(directory: str) -> float:
    with tf.Graph().as_default():
        w = v1.get_variable("w", [8])
        v1.train.create_global_step()
        v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver())
        creator = EstimatorSessionCreator(v1.train.Scaffold(), "", True, None, directory, 0.0)
        with creator.create_session() as session:
            return float(session.run(w)[0])


def of_export(directory: str) -> float:
    path = Estimator(model_fn, directory).export_saved_model(os.path.join(directory, "export"), receiver)
    with tf.Graph().as_default(), v1.Session() as session:
        loaded = v1.saved_model.load(session, ["serve"], path.decode())
        output = loaded.signature_def["serving_default"].outputs["output"].name
        given = loaded.signature_def["serving_default"].inputs["x"].name
        return float(session.run(output, {given: np.zeros([1, 8])})[0][0])


def of_evaluator(directory: str) -> float:
    exports = EvalExports(Job(), directory, lambda checkpoint, folder: checkpoint)
    scores: list[str] = []
    quiet = Console(open(os.devnull, "w"), open(os.devnull, "w"))  # noqa: SIM115

    def score(path: str) -> dict[str, float]:
        scores.append(path)
        try:
            w = tf.train.load_checkpoint(path).get_tensor("w")
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise role.DamagedCheckpointError(str(error)) from None
        return {"w": float(w[0])}

    scorer = role._CheckpointScorer(directory, score, quiet, exports)
    while scorer.count == 0:
        assert scorer.update()
    return float(scorer.step)


READERS = {
    "newest_checkpoint": lambda d: float(str(newest_checkpoint(d)).rpartition("-")[2]),
    "needed_checkpoint": lambda d: float(needed_checkpoint(d).rpartition("-")[2]),
    "saved_step": lambda d: float(saved_step(d)),
    "Estimator.latest_checkpoint": lambda d: float(str(Estimator(model_fn, d).latest_checkpoint()).rpartition("-")[2]),
    "Estimator.get_variable_value": lambda d: float(Estimator(model_fn, d).get_variable_value("w")[0]),
    "Estimator.evaluate": lambda d: float(Estimator(model_fn, d).evaluate(batches)["loss"]),
    "Estimator.predict": lambda d: float(next(iter(Estimator(model_fn, d).predict(batches)))[0]),
    "Estimator.export_saved_model": of_export,
    "a restoring session": of_session,
    "the evaluator": of_evaluator,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_reader_takes_the_newest_good_one(tmp_path: pathlib.Path, reader: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(role, "_LOOK_SECS", 0.0)
    mixed_directory(tmp_path)
    assert reader(str(tmp_path)) == 20.0


def test_checkpoints_that_are_copied_without_the_id_are_those_of_the_run(tmp_path: pathlib.Path) -> None:
    write_checkpoint(tmp_path, 7, run="copied")
    assert read_run_id(str(tmp_path)) == "copied"
    assert [step for step, _ in run_checkpoints(str(tmp_path))] == [7]


def test_a_copied_directory_of_a_saver_is_read_itself_and_not_the_one_that_its_list_names(
    tmp_path: pathlib.Path,
) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("w", initializer=1.0)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(tmp_path / "one" / "mine"), 5)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert newest_checkpoint(str(tmp_path / "two")) == str(tmp_path / "two" / "mine-5")
