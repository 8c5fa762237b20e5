"""A program trains on the engine in one process, as often as it likes."""

from __future__ import annotations

import dataclasses
import pathlib
import signal
import threading
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.compat.capture.captured_training import train
from ps_train.compat.capture.estimator_program import NanLossError, Program
from ps_train.compat.capture.survey import survey_program
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.run_config import RunConfig
from tests.support.compat import estimators
from tests.support.compat.programs import (
    ROWS,
    embedding,
    input_fn,
    minimize,
    network,
    plain_values,
    program_of,
    spec_of,
    step,
)


def config(**changes: Any) -> Any:
    usual = {"tf_random_seed": 7, "save_checkpoints_steps": 4, "save_checkpoints_secs": None, "keep_checkpoint_max": 5}
    usual |= {"keep_checkpoint_every_n_hours": 10000}
    usual |= {"save_summary_steps": 2, "job": None}
    return types.SimpleNamespace(cluster_spec=v1.train.ClusterSpec({}), **{**usual, **changes})


def program_in(tmp_path: pathlib.Path, program: Program | None = None, **changes: Any) -> Program:
    usual = {"config": config(), "model_dir": str(tmp_path / "m"), "max_steps": 10}
    return dataclasses.replace(program or program_of(minimize), **{**usual, **changes})


def values_at(program: Program, number: int) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(f"{program.model_dir}/model.ckpt-{number}")
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


class Record(v1.train.SessionRunHook):
    """What a hook is told, in order; it stops at a step."""

    def __init__(self, last: int = 10**9) -> None:
        self.told, self._last = list[Any](), last

    def begin(self) -> None:
        self.told.append("begin")
        self._step = v1.train.get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.told.append("session")

    def before_run(self, run_context: Any) -> Any:
        return v1.train.SessionRunArgs("dense/kernel_of_the_model:0")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        assert run_values.results.shape == (9, 1)
        number = int(run_context.session.run(self._step))
        self.told.append(number)
        if number >= self._last:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        self.told.append("end")


def named(train_op_of: Any = minimize) -> Program:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        outputs = network(features, tf.zeros([8, 4]))
        tf.identity(v1.trainable_variables("dense/kernel")[0], name="dense/kernel_of_the_model")
        loss = tf.reduce_mean((outputs - labels) ** 2)
        return spec_of(loss, train_op_of(loss))

    return Program(model_fn, input_fn, None, "")


def test_point_60_a_hook_gets_every_step_and_finds_tensors_by_name(tmp_path: pathlib.Path) -> None:
    hook = Record()
    handlers = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    assert train(program_in(tmp_path, named(), hooks=[hook])) == 10
    assert hook.told == ["begin", "session", *range(1, 11), "end"]
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.long
def test_point_85_a_hook_stops_the_job_with_a_checkpoint(tmp_path: pathlib.Path) -> None:
    hook = Record(last=6)
    program = program_in(tmp_path, named(), hooks=[hook])
    assert train(program) == 6
    assert hook.told[-2:] == [6, "end"] and values_at(program, 6)["global_step"] == 6


@pytest.mark.long
def test_points_57_61_and_66_checkpoints_listeners_and_a_second_training(tmp_path: pathlib.Path) -> None:
    told: list[Any] = []

    class Listener(v1.train.CheckpointSaverListener):
        def begin(self) -> None:
            told.append("begin")

        def before_save(self, session: Any, global_step_value: int) -> None:
            told.append(("before", global_step_value))

        def after_save(self, session: Any, global_step_value: int) -> None:
            told.append(("after", global_step_value))

        def end(self, session: Any, global_step_value: int) -> None:
            told.append(("end", global_step_value))

    program = program_in(tmp_path, saving_listeners=[Listener()])
    assert train(program) == 10
    assert told[0] == "begin" and told[-1] == ("end", 10)
    assert told[1:3] == [("before", 0), ("after", 0)] and told[-3:-1] == [("before", 10), ("after", 10)]
    saved = [number for what, number in told[1:-1] if what == "after"]
    assert saved == sorted(set(saved)) and {0, 10} <= set(saved)
    initial = values_at(program, 0)
    for name, value in plain_values(program, initial, 10).items():
        np.testing.assert_array_equal(values_at(program, 10)[name], value, err_msg=name)
    assert train(dataclasses.replace(program, max_steps=14, saving_listeners=())) == 14
    assert v1.train.latest_checkpoint(program.model_dir) == f"{program.model_dir}/model.ckpt-14"


@pytest.mark.long
def test_point_63_a_loss_that_is_not_finite_is_tensorflows_error(tmp_path: pathlib.Path) -> None:
    def explode(loss: tf.Tensor) -> Any:
        return v1.train.GradientDescentOptimizer(1e30).minimize(loss, step())

    with pytest.raises(NanLossError, match="not a finite number"):
        train(program_in(tmp_path, program_of(explode)))
    assert issubclass(NanLossError, v1.train.NanLossDuringTrainingError)


@pytest.mark.long
def test_points_62_and_64_initial_values_come_from_elsewhere_once(tmp_path: pathlib.Path) -> None:
    calls: list[str] = []

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        outputs = network(features, tf.zeros([8, 4]))
        (bias,) = [variable for variable in v1.global_variables() if variable.op.name == "dense/bias"]

        def init_fn(scaffold: Any, session: Any) -> None:
            calls.append("init_fn")
            bias.load([5.0], session)

        loss = tf.reduce_mean((outputs - labels) ** 2)
        return spec_of(loss, minimize(loss), scaffold=v1.train.Scaffold(init_fn=init_fn))

    program = program_in(tmp_path, Program(model_fn, input_fn, None, ""))
    assert train(program) == 10
    assert calls == ["init_fn"] and values_at(program, 0)["dense/bias"] == [5.0]
    for name, value in plain_values(program, values_at(program, 4), 6).items():
        assert value.shape == values_at(program, 10)[name].shape
    assert train(dataclasses.replace(program, max_steps=12)) == 12
    assert calls == ["init_fn"]


def old_checkpoint(directory: pathlib.Path, values: dict[str, np.ndarray]) -> str:
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in values.items():
            v1.get_variable(name, initializer=tf.constant(value))
        session.run(v1.global_variables_initializer())
        return str(v1.train.Saver().save(session, str(directory / "model.ckpt"), 70))


@pytest.mark.long
def test_init_from_checkpoint_in_a_model_fn_gives_the_first_values_once(tmp_path: pathlib.Path) -> None:
    random = np.random.default_rng(9)
    values = {
        "old/kernel": random.normal(size=(9, 1)).astype(np.float32),
        "embedding": random.normal(size=(ROWS, 4)).astype(np.float32),
        "state": np.float32(3.5),
    }
    path = old_checkpoint(tmp_path, values)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        looked_up = tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)
        outputs = network(features, looked_up)
        state = v1.get_variable("state", [], trainable=False)
        (kernel,) = [one for one in v1.trainable_variables() if one.op.name == "dense/kernel"]
        v1.train.init_from_checkpoint(path, {"old/kernel": kernel, "embedding": "embedding", "state": state})
        loss = tf.reduce_mean((outputs - labels) ** 2)
        return spec_of(loss, minimize(loss))

    program = program_in(tmp_path, Program(model_fn, input_fn, config(), ""))
    assert set(survey_program(program).looked_up) == {"embedding"}
    assert train(program) == 10
    first, last = values_at(program, 0), values_at(program, 10)
    for ours, theirs in {"dense/kernel": "old/kernel", "embedding": "embedding", "state": "state"}.items():
        assert np.array_equal(first[ours], values[theirs]), ours
    assert not np.array_equal(last["dense/kernel"], first["dense/kernel"]) and last["state"] == np.float32(3.5)
    old_checkpoint(tmp_path, {name: value + 1 for name, value in values.items()})  # a resumed training ignores it
    assert train(dataclasses.replace(program, max_steps=11)) == 11
    resumed = values_at(program, 11)
    assert np.abs(resumed["dense/kernel"] - last["dense/kernel"]).max() < 0.2 and resumed["state"] == np.float32(3.5)


def test_wrong_names_for_init_from_checkpoint_are_the_programs_own_error(tmp_path: pathlib.Path) -> None:
    path = old_checkpoint(tmp_path, {"w": np.zeros(3, np.float32)})

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        outputs = network(features, tf.zeros([8, 4]))
        v1.train.init_from_checkpoint(path, {"dense/": "dense/"})
        return spec_of(tf.reduce_mean(outputs), minimize(tf.reduce_mean(outputs)))

    with pytest.raises(ValueError, match=r"Tensor dense/bias .* is not found in .* checkpoint"):
        train(program_in(tmp_path, Program(model_fn, input_fn, config(), "")))
    assert not any(thread.name == "ps" for thread in threading.enumerate()), "nothing serves for a program that failed"


@pytest.mark.long
def test_point_65_the_end_of_the_input_ends_the_training(tmp_path: pathlib.Path) -> None:
    def once() -> Any:
        return input_fn().take(5)

    assert train(program_in(tmp_path, dataclasses.replace(program_of(minimize), input_fn=once), max_steps=None)) == 5


def test_a_loss_over_all_pairs_of_a_batch_is_refused_before_any_step(tmp_path):
    made = Estimator(crossing, str(tmp_path), RunConfig(engine="ps_train"))
    with pytest.raises(ModelError, match=r"the loss combines \[batch\] with labels \[batch, 1\] \(.*estimators.py"):
        made.train(estimators.forever, steps=1)


def crossing(features: Any, labels: Any, mode: str) -> Any:
    """Gives the squared loss outputs [batch] and labels [batch, 1]."""
    return estimators.spec_of(mode, features, labels[:, None])
