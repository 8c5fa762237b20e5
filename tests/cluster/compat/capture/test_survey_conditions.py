"""Updates that depend on a condition: recorded rightly, or made by TensorFlow's own means, with the same numbers."""

from __future__ import annotations

import contextlib
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.compat.capture.survey import survey_program
from ps_train.estimator import Estimator, EstimatorSpec, RunConfig
from tests.support.compat.programs import BATCH, ROWS, check, input_fn, minimize, program_of, step
from tests.support.compat.served import served
from tests.support.long import long

_random = np.random.default_rng(0)
KERNEL = 0.3 * _random.normal(size=(9, 1)).astype(np.float32)
ROW_VALUES = 0.3 * _random.normal(size=(ROWS, 4)).astype(np.float32)
IN_A_CONDITION = "applies gradients inside of a condition, a loop or a tf.function"


def every(number: int) -> tf.Tensor:
    return tf.equal(step() % number, number - 1)


def counted_after(done: Any) -> Any:
    with tf.control_dependencies([done]):
        return v1.assign_add(step(), 1).op


@contextlib.contextmanager
def of_tensorflow_1() -> Iterator[None]:
    """Switch and Merge in place of functions."""
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def every_third(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)
    return counted_after(tf.cond(every(3), lambda: optimizer.apply_gradients(pairs), tf.no_op))


def every_third_of_tensorflow_1(loss: tf.Tensor) -> Any:
    with of_tensorflow_1():
        return every_third(loss)


def minimized_in_a_branch(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(0.1)
    return counted_after(tf.cond(every(3), lambda: optimizer.minimize(loss), tf.no_op))


def accumulated(loss: tf.Tensor) -> Any:
    """The usual gradient accumulation: variables of sums, and an update of their means."""
    optimizer = v1.train.AdamOptimizer(0.05)
    pairs = optimizer.compute_gradients(loss)
    sums = [
        v1.get_variable(f"sums/{v.op.name}", v.shape, initializer=v1.zeros_initializer(), trainable=False)
        for _, v in pairs
    ]
    adds = [total.assign_add(tf.convert_to_tensor(g) / 4) for total, (g, _) in zip(sums, pairs, strict=True)]

    def update() -> Any:
        means = [(total.read_value(), v) for total, (_, v) in zip(sums, pairs, strict=True)]
        with tf.control_dependencies([optimizer.apply_gradients(means)]):
            return tf.group(*[total.assign(tf.zeros_like(total)) for total in sums])

    with tf.control_dependencies(adds):
        return counted_after(tf.cond(every(4), update, tf.no_op))


def by_turns(loss: tf.Tensor) -> Any:
    first, second = v1.train.AdagradOptimizer(0.1), v1.train.GradientDescentOptimizer(0.01)
    return tf.cond(tf.equal(step() % 2, 0), lambda: first.minimize(loss, step()), lambda: second.minimize(loss, step()))


def by_case(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)
    branches = [lambda: tf.group(optimizer.apply_gradients(pairs)), tf.no_op]
    return counted_after(tf.switch_case(tf.cast(step() % 2, tf.int32), branches))


def in_a_loop(loss: tf.Tensor) -> Any:
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)

    def body(number: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
            return number + 1

    (number,) = tf.while_loop(lambda number: number < 2, body, [tf.constant(0)])
    return counted_after(number)


def in_a_function(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)

    @tf.function
    def update() -> Any:
        if step() % 3 == 2:
            optimizer.apply_gradients(pairs)
        return 0

    return counted_after(update())


def hidden_error(loss: tf.Tensor) -> Any:
    with contextlib.suppress(Exception):
        every_third(loss)
    return minimize(loss)


def not_run(loss: tf.Tensor) -> Any:
    v1.train.AdagradOptimizer(0.01).minimize(loss, var_list=v1.trainable_variables("embedding"))
    return v1.train.AdagradOptimizer(0.1).minimize(loss, step(), v1.trainable_variables("dense"))


class RunOps(v1.train.SessionRunHook):
    """Runs operations before each step, as the hooks of two networks that train by turns."""

    def __init__(self, *ops: Any) -> None:
        self._ops = ops

    def before_run(self, run_context: Any) -> None:
        for op in self._ops:
            run_context.session.run(op)


def by_hooks(loss: tf.Tensor) -> Any:
    first = v1.train.AdagradOptimizer(0.1).minimize(loss, var_list=v1.trainable_variables("dense"))
    second = v1.train.AdagradOptimizer(0.05).minimize(-loss, var_list=v1.trainable_variables("embedding"))
    return v1.assign_add(step(), 1).op, [RunOps(first, second, first)]


def one_adam_twice(loss: tf.Tensor) -> Any:
    adam = v1.train.AdamOptimizer(0.05)
    first = adam.minimize(loss, var_list=v1.trainable_variables("dense"))
    return tf.group(first, adam.minimize(loss, step(), v1.trainable_variables("embedding")))


def step_in_a_branch(loss: tf.Tensor) -> Any:
    done = v1.train.AdagradOptimizer(0.1).minimize(loss)
    counted = tf.cond(loss > 1e9, lambda: tf.identity(step()), lambda: v1.assign_add(step(), 1))
    return tf.group(done, counted)


class InItsOwnTime(v1.train.AdagradOptimizer):
    """An optimizer whose update depends on a variable of its own, which it looks for in the current graph."""

    def _create_slots(self, var_list: Any) -> None:
        super()._create_slots(var_list)
        self._create_non_slot_variable(0, "calls", min(var_list, key=lambda v: v.name))

    def _calls(self) -> Any:
        return self._get_non_slot_variable("calls", v1.get_default_graph())

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        update = super()._resource_apply_dense
        return tf.cond(tf.equal(self._calls() % 2, 1), lambda: tf.group(update(grad, handle)), tf.no_op)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._resource_apply_dense(tf.convert_to_tensor(tf.IndexedSlices(grad, indices, handle.shape)), handle)

    def _finish(self, update_ops: Any, name_scope: str) -> Any:
        with tf.control_dependencies(update_ops):
            return tf.group(self._calls().assign_add(1, read_value=False), name=name_scope)


def own_update(loss: tf.Tensor) -> Any:
    return InItsOwnTime(0.1).minimize(loss, step())


def clipped_values(loss: tf.Tensor) -> Any:
    kernel = v1.trainable_variables("dense")[0]
    with tf.control_dependencies([loss]):
        clip = tf.cond(every(3), lambda: tf.group(kernel.assign(tf.clip_by_value(kernel, -0.2, 0.2))), tf.no_op)
    with tf.control_dependencies([clip]):
        return v1.train.AdagradOptimizer(0.1).minimize(tf.identity(loss), step())


class Weighted(v1.train.Optimizer):
    """An optimizer in the manner of language models: it assigns in apply_gradients, and does not count steps."""

    def __init__(self) -> None:
        super().__init__(False, "Weighted")

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
        done = []
        for gradient, variable in grads_and_vars:
            name = f"{variable.op.name}/mean"
            mean = v1.get_variable(name, variable.shape, trainable=False, initializer=v1.zeros_initializer())
            moved = 0.9 * mean + 0.1 * tf.convert_to_tensor(gradient)
            done += [variable.assign(variable - 0.1 * (moved + 0.01 * variable)), mean.assign(moved)]
        return tf.group(*done)


def of_a_language_model(loss: tf.Tensor) -> Any:
    variables = v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    done = Weighted().apply_gradients(zip(gradients, variables, strict=True))
    return tf.group(done, step().assign(step() + 1))


def model_fn_of(train: Callable[[tf.Tensor], Any]) -> Callable[..., EstimatorSpec]:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        table = v1.get_variable("embedding", [ROWS, 4], initializer=v1.constant_initializer(ROW_VALUES))
        with v1.variable_scope("dense"):
            kernel = v1.get_variable("kernel", [9, 1], initializer=v1.constant_initializer(KERNEL))
            bias = v1.get_variable("bias", [1], initializer=v1.zeros_initializer())
        rows = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
        loss = tf.reduce_mean((tf.concat([features["x"], rows], 1) @ kernel + bias - labels) ** 2)
        train_op = train(loss)
        train_op, hooks = train_op if isinstance(train_op, tuple) else (train_op, [])
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    return model_fn


def trained(directory: pathlib.Path, train: Callable[[tf.Tensor], Any], engine: str) -> dict[str, np.ndarray]:
    """Returns the variables after 12 steps."""
    config = RunConfig(str(directory), save_checkpoints_steps=100, engine=engine, tf_random_seed=1)
    model = Estimator(model_fn_of(train), config=config).train(input_fn, max_steps=12)
    names = [name for name in model.get_variable_names() if not name.startswith("ps_train/")]
    return {name: model.get_variable_value(name) for name in names}


REFUSED = [
    (every_third, IN_A_CONDITION),
    (every_third_of_tensorflow_1, IN_A_CONDITION),
    (minimized_in_a_branch, IN_A_CONDITION),
    (accumulated, IN_A_CONDITION),
    (by_turns, IN_A_CONDITION),
    (by_case, IN_A_CONDITION),
    (in_a_loop, IN_A_CONDITION),
    (in_a_function, "no optimizer of tf.compat.v1.train applies gradients"),
    (by_hooks, "the train_op does not run the update of dense/bias by AdagradOptimizer"),
    (one_adam_twice, "one AdamOptimizer applies gradients twice in a step: it has beta1_power once"),
    (step_in_a_branch, "sets the global step"),
    (own_update, "a copy of InItsOwnTime cannot make its update on a ps"),
    (clipped_values, "it cannot be built on the engine of ps_train: the model assigns to variable dense/kernel"),
    (of_a_language_model, "no optimizer of tf.compat.v1.train applies gradients"),
]


@pytest.mark.parametrize(
    ("train", "reason"),
    [case if case[0] in (every_third, accumulated, by_hooks, clipped_values) else long(*case) for case in REFUSED],
    ids=lambda value: getattr(value, "__name__", "-"),
)
@pytest.mark.usual(1)
def test_what_depends_on_a_condition_is_trained_by_tensorflow_with_the_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    train: Callable[[tf.Tensor], Any],
    reason: str,
) -> None:
    expected = trained(tmp_path / "plain", train, "tensorflow")
    with caplog.at_level(logging.WARNING), served(2, monkeypatch):
        found = trained(tmp_path / "cluster", train, "auto")
    (line,) = [text for text in caplog.messages if "TensorFlow's own means, variable by variable, because" in text]
    assert reason in line and "\n" not in line
    assert found.keys() == expected.keys() and expected["global_step"] == 12
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("train", "reason"),
    [case for case in REFUSED if case[0] is not clipped_values and case[0] is not by_hooks]
    + [(hidden_error, IN_A_CONDITION), (not_run, "the train_op does not run the update of embedding")],
    ids=lambda value: getattr(value, "__name__", "-"),
)
def test_the_survey_finds_it(train: Callable[[tf.Tensor], Any], reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        survey_program(program_of(train))


def masked(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdamOptimizer(0.1)
    pairs = [(tf.convert_to_tensor(g), v) for g, v in optimizer.compute_gradients(loss)]
    return optimizer.apply_gradients([(tf.where(every(3), g, tf.zeros_like(g)), v) for g, v in pairs], step())


def gradients_of_branches(loss: tf.Tensor) -> Any:
    variables = v1.trainable_variables()

    def found() -> list[tf.Tensor]:
        return [tf.convert_to_tensor(gradient) for gradient in tf.gradients(loss, variables)]

    gradients = tf.cond(every(3), found, lambda: [tf.zeros(v.shape) for v in variables])
    return v1.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients, variables, strict=True), step())


def gradients_of_branches_of_tensorflow_1(loss: tf.Tensor) -> Any:
    with of_tensorflow_1():
        return gradients_of_branches(loss)


def slices_of_branches(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(0.1)
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    chosen = tf.cond(every(3), lambda: [*gradients], lambda: [zero_like(gradient) for gradient in gradients])
    return optimizer.apply_gradients(zip(chosen, variables, strict=True), step())


def zero_like(gradient: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.zeros_like(gradient)
    return tf.IndexedSlices(tf.zeros_like(gradient.values), gradient.indices, gradient.dense_shape)


def state_of_branches(loss: tf.Tensor) -> Any:
    seen = v1.get_variable("seen", [], initializer=v1.zeros_initializer(), trainable=False)
    sums = v1.get_variable("sums", [BATCH], initializer=v1.zeros_initializer(), trainable=False)
    counted = tf.cond(every(3), lambda: seen.assign_add(1.0), lambda: tf.identity(seen))
    with tf.control_dependencies([counted]):
        added = tf.cond(seen > 1.5, lambda: sums.assign(sums + seen), lambda: tf.identity(sums))
    with tf.control_dependencies([added]):
        return minimize(loss * (1.0 + seen))


def plain_gradients(loss: tf.Tensor) -> Any:
    variables = v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    return v1.train.AdamOptimizer(0.05).apply_gradients(zip(gradients, variables, strict=True), step())


def one_adagrad_twice(loss: tf.Tensor) -> Any:
    adagrad = v1.train.AdagradOptimizer(0.05)
    first = adagrad.minimize(loss, var_list=v1.trainable_variables("dense"))
    return tf.group(first, adagrad.minimize(loss, step(), v1.trainable_variables("embedding")))


RECORDED = [masked, gradients_of_branches, slices_of_branches, state_of_branches, plain_gradients, one_adagrad_twice]


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize(
    "train", [*RECORDED, long(gradients_of_branches_of_tensorflow_1)], ids=lambda train: train.__name__
)
def test_conditions_before_the_update_are_recorded(train: Callable[[tf.Tensor], Any], num_ps: int) -> None:
    check(program_of(train), num_ps)
