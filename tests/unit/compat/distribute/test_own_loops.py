"""A loop of a program's own trains on the engine: each `apply_gradients` is one of its steps."""

from __future__ import annotations

import functools
import socket
import time
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.compat.distribute.own_loops import OF_LOOP, OwnLoop
from ps_train.compat.scripts.program_end import program_has_ended
from ps_train.config.job import Job, Task

X = np.random.RandomState(0).randn(64, 5).astype("f")
Y = np.random.RandomState(1).randint(0, 3, 64)


def job(**values: Any) -> Job:
    """Returns a job of one worker in this process, which is the ps too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    given = {**OF_LOOP, "steps_per_run": "1", "update": "sync", **values}
    return Job(worker_hosts=(address,), ps_on_workers=True, **given)


class Program:
    """A model with its step."""

    def __init__(self, optimizer: Any) -> None:
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(8, activation="tanh", name="hidden"), keras.layers.Dense(3, name="logits")]
        self.model, self.optimizer = keras.Sequential([keras.Input((5,)), *layers], name="small"), optimizer
        self._loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(self, x: Any, y: Any, apply: Any) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._loss(y, self.model(x, training=True))
        variables = self.model.trainable_variables
        apply(tape.gradient(loss, variables), variables)
        return loss

    def train(self, steps: int, apply: Any, in_graph: bool = True, first: int = 0) -> list[float]:
        step = tf.function(self.step) if in_graph else self.step
        parts = [slice(i % 4 * 16, i % 4 * 16 + 16) for i in range(first, first + steps)]
        return [float(step(tf.constant(X[part]), tf.constant(Y[part]), apply)) for part in parts]


def plainly(make: Any, steps: int) -> tuple[list[float], list[Any]]:
    alone = Program(make())
    losses = alone.train(steps, lambda gradients, variables: alone.optimizer.apply(gradients, variables))
    return losses, alone.model.get_weights()


def test_a_loop_in_a_function_equals_the_loop_alone():
    losses, weights = plainly(lambda: keras.optimizers.Adam(0.02, clipnorm=0.5), 10)
    program = Program(keras.optimizers.Adam(0.02, clipnorm=0.5))
    loop = OwnLoop(job(), Task("worker", 0), program.optimizer, program.model.trainable_variables, 1.0)
    assert not loop.begin()
    found = program.train(10, lambda gradients, variables: loop.apply(program.optimizer, gradients, variables))
    assert program_has_ended(None) == 0
    np.testing.assert_allclose(found, losses, atol=1e-6)
    for one, other in zip(program.model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert int(program.optimizer.iterations) == 10


def test_a_loop_may_accumulate_gradients_over_steps():
    losses, weights = plainly(lambda: keras.optimizers.Adam(0.02, gradient_accumulation_steps=2), 10)
    program = Program(keras.optimizers.Adam(0.02, gradient_accumulation_steps=2))
    loop = OwnLoop(job(), Task("worker", 0), program.optimizer, program.model.trainable_variables, 1.0)
    assert not loop.begin()
    found = program.train(10, lambda gradients, variables: loop.apply(program.optimizer, gradients, variables))
    assert program_has_ended(None) == 0
    np.testing.assert_allclose(found, losses, atol=1e-6)
    for one, other in zip(program.model.get_weights(), weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert int(program.optimizer.iterations) == 5


@pytest.fixture
def begun(tmp_path):
    """Begins the loop of a program; ends it after the test, if the test has not."""

    def call(program: Program, **values: Any) -> OwnLoop:
        variables = program.model.trainable_variables
        loop = OwnLoop(
            job(model_dir=str(tmp_path / "run"), **values), Task("worker", 0), program.optimizer, variables, 1
        )
        loop.begin()
        return loop

    yield call
    program_has_ended(None)


@pytest.mark.long
def test_a_loop_without_a_function_is_checkpointed_and_goes_on(begun, tmp_path):
    losses, _ = plainly(lambda: keras.optimizers.SGD(0.1, momentum=0.9), 7)
    found = []
    for steps, other in ((3, 1), (4, 5)):
        program = Program(keras.optimizers.SGD(0.1, momentum=0.9))
        keras.utils.set_random_seed(other)
        loop = begun(program, update="async")
        apply = functools.partial(loop.apply, program.optimizer)
        found += program.train(steps, apply, in_graph=False, first=len(found))
        assert program_has_ended(None) == 0
        checkpoint = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path / "run")))
        assert checkpoint.get_tensor("global_step") == len(found)
    np.testing.assert_allclose(found, losses, atol=1e-6)


def test_a_program_may_pause_for_longer_than_a_ps_may_be_silent(begun):
    program = Program(keras.optimizers.SGD(0.1))
    loop = begun(program, recovery_timeout_secs=0.5, heartbeat_timeout_secs=1.0)
    apply = functools.partial(loop.apply, program.optimizer)
    for _ in range(2):
        program.train(1, apply)
        time.sleep(1.5)
    assert program_has_ended(None) == 0


def test_what_a_loop_cannot_do_is_refused_where_the_program_does_it(begun):
    program = Program(keras.optimizers.SGD(0.1))
    loop, variables = begun(program), program.model.trainable_variables
    gradients = [tf.zeros(variable.shape) for variable in variables]
    with pytest.raises(ModelError, match=r"Adam .* second optimizer"):
        loop.apply(keras.optimizers.Adam(), gradients, variables)
    with pytest.raises(ModelError, match=r"other variables than at its first call \(small/hidden/kernel\)"):
        loop.apply(program.optimizer, gradients[1:], variables[1:])


def test_an_optimizer_that_cannot_be_traced_is_refused_at_the_first_step(begun):
    with pytest.raises(ModelError, match=r"LossScaleOptimizer .* bfloat16"):
        begun(Program(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))))
