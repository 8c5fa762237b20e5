"""A model_fn on the engine makes, bit by bit, the steps that TensorFlow makes with it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.capture.capture_error import CaptureError
from ps_train.capture.captured_model import CapturedModel
from ps_train.capture.program import Program
from ps_train.capture.survey import Survey, survey_program
from tests.support.cluster import InProcessCluster

STEPS, BATCH, ROWS = 12, 8, 40
_random = np.random.default_rng(4)
X = _random.normal(size=(96, 5)).astype(np.float32)
IDS = _random.integers(0, ROWS, size=(96, 3))
Y = _random.normal(size=(96, 1)).astype(np.float32)
CONFIG = types.SimpleNamespace(tf_random_seed=1)


def input_fn() -> Any:
    return tf.data.Dataset.from_tensor_slices(({"x": X, "ids": IDS}, Y)).repeat().batch(BATCH)


def network(features: Any, looked_up: Any) -> tf.Tensor:
    """A dense layer on numbers and the mean of looked-up rows."""
    with v1.variable_scope("dense"):
        kernel = v1.get_variable("kernel", [9, 1], initializer=v1.glorot_uniform_initializer(seed=1))
        bias = v1.get_variable("bias", [1], initializer=v1.zeros_initializer())
    return tf.concat([features["x"], looked_up], 1) @ kernel + bias


def embedding(name: str = "embedding", **options: Any) -> Any:
    return v1.get_variable(name, [ROWS, 4], initializer=v1.random_normal_initializer(0, 0.3, seed=3), **options)


def spec_of(loss: tf.Tensor, train_op: Any, **more: Any) -> Any:
    usual = {"training_hooks": None, "training_chief_hooks": None, "scaffold": None}
    return types.SimpleNamespace(loss=loss, train_op=train_op, **{**usual, **more})


def program_of(train: Callable[[tf.Tensor], Any], lookup: Callable[[Any], tf.Tensor] | None = None) -> Program:
    """A program whose model_fn trains by `train`, which takes the loss and returns the train_op."""

    def usual(features: Any) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean((network(features, (lookup or usual)(features)) - labels) ** 2)
        return spec_of(loss, train(loss))

    return Program(model_fn, input_fn, CONFIG, "unused")


def in_one_piece(getter: Any, *args: Any, **options: Any) -> Any:
    return getter(*args, **{**options, "partitioner": None})


def plain_values(program: Program, initial: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """The variables after steps of TensorFlow's own, which begin with the initial values."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        features, labels = v1.data.make_one_shot_iterator(program.input_fn()).get_next()
        with v1.variable_scope(v1.get_variable_scope(), use_resource=True, custom_getter=in_one_piece):
            spec = program.model_fn(features, labels, "train")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for variable in v1.global_variables():
                variable.load(initial[variable.op.name], session)
            for _ in range(steps):
                session.run(spec.train_op)
            return {variable.op.name: session.run(variable) for variable in v1.global_variables()}


def check(program: Program, num_ps: int, **fields: Any) -> Survey:
    """Trains on the engine and in a plain session, and compares all variables."""
    survey = survey_program(program)
    cluster = InProcessCluster(CapturedModel(program, survey, True), num_ps, 1, None, 64, epochs=1, **fields)
    cluster.start()
    initial = cluster.values()
    cluster.train(STEPS, run=int(fields.get("steps_per_run", 1)))
    found, expected = cluster.values(), plain_values(program, initial, STEPS)
    assert found.keys() - expected.keys() == {"ps_train/examples", "ps_train/skipped", "ps_train/dropped"}
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert expected["global_step"] == STEPS
    return survey


def step() -> tf.Tensor:
    return v1.train.get_global_step()


def falling_rate() -> tf.Tensor:
    return v1.train.exponential_decay(0.1, step(), 3, 0.8, staircase=True)


def minimize(loss: tf.Tensor) -> Any:
    return v1.train.AdagradOptimizer(0.1).minimize(loss, step())


def clipped(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(falling_rate())
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    return optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 0.4)[0], variables, strict=True), step())


def two_optimizers(loss: tf.Tensor) -> Any:
    wide = v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=[v1.trainable_variables("dense")[1]])
    deep = v1.train.AdamOptimizer(0.02).minimize(
        loss, step(), var_list=[v1.trainable_variables("dense")[0], *v1.trainable_variables("embedding")]
    )
    return tf.group(wide, deep)


def two_adams(loss: tf.Tensor) -> Any:
    with tf.name_scope("training"):
        first = v1.train.AdamOptimizer(0.02).minimize(loss, step(), var_list=v1.trainable_variables("dense"))
        second = v1.train.AdamOptimizer(falling_rate()).minimize(loss, var_list=v1.trainable_variables("embedding"))
    return tf.group(first, second)


def some_variables(loss: tf.Tensor) -> Any:
    return v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, step(), var_list=v1.trainable_variables("dense/bias"))


def scaled(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(lambda: falling_rate() * 2.0)
    pairs = optimizer.compute_gradients(loss)
    return optimizer.apply_gradients([(3.0 * g if v.op.name == "dense/bias" else g, v) for g, v in pairs], step())


@pytest.mark.parametrize("num_ps", [1, 2])
@pytest.mark.parametrize(
    "train", [minimize, clipped, two_optimizers, two_adams, some_variables, scaled], ids=lambda train: train.__name__
)
def test_point_66_and_69_the_values_are_those_of_tensorflow(train: Callable[[tf.Tensor], Any], num_ps: int) -> None:
    check(program_of(train), num_ps)


def test_point_66_several_steps_in_a_call(num_ps: int = 2) -> None:
    check(program_of(two_adams), num_ps, steps_per_run="4")


def _to_sparse(ids: tf.Tensor) -> tf.SparseTensor:
    where = tf.where(ids >= 0)
    return tf.SparseTensor(where, tf.gather_nd(ids, where), tf.shape(ids, tf.int64))


def vector(features: Any) -> tf.Tensor:
    found = v1.get_variable("first_order", [ROWS], initializer=v1.random_normal_initializer(0, 0.3, seed=3))
    looked_up = tf.reduce_sum(tf.nn.embedding_lookup(found, features["ids"]), 1, keepdims=True)
    return tf.tile(looked_up, [1, 4])


LOOKUPS: dict[str, Callable[[Any], tf.Tensor]] = {
    "gather": lambda f: tf.reduce_sum(tf.gather(embedding(), f["ids"]), 1),
    "lookup_v2": lambda f: tf.reduce_sum(tf.nn.embedding_lookup(embedding(), f["ids"]), 1),
    "lookup_v1": lambda f: tf.reduce_sum(v1.nn.embedding_lookup([embedding()], f["ids"]), 1),
    "sparse": lambda f: v1.nn.embedding_lookup_sparse(embedding(), _to_sparse(f["ids"]), None, combiner="mean"),
    "safe_sparse": lambda f: v1.nn.safe_embedding_lookup_sparse(embedding(), _to_sparse(f["ids"]), combiner="sqrtn"),
    "partitioned": lambda f: v1.nn.safe_embedding_lookup_sparse(
        embedding(partitioner=v1.fixed_size_partitioner(3)), _to_sparse(f["ids"]), combiner="sum"
    ),
    "column": lambda f: v1.feature_column.input_layer(
        {"ids": f["ids"]},
        [
            tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_identity("ids", ROWS),
                4,
                initializer=v1.random_normal_initializer(0, 0.3, seed=3),
            )
        ],
    ),
    "vector": vector,
    "linear_column": lambda f: tf.tile(
        v1.feature_column.linear_model(
            {"ids": f["ids"]}, [tf.feature_column.categorical_column_with_identity("ids", ROWS)]
        ),
        [1, 4],
    ),
}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_point_70_a_variable_that_is_looked_up_travels_by_rows(lookup: str) -> None:
    survey = check(program_of(minimize, LOOKUPS[lookup]), 2)
    assert len(survey.looked_up) == 1


def test_point_70_a_variable_that_is_read_whole_too_travels_whole() -> None:
    def both(features: Any) -> tf.Tensor:
        found = embedding()
        return tf.reduce_mean(tf.nn.embedding_lookup(found, features["ids"]), 1) + 0.1 * tf.reduce_sum(found)

    assert check(program_of(minimize, both), 2).looked_up == {}


def test_point_67_moving_averages_move_if_the_train_op_waits_for_them() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        mean = v1.get_variable("mean", [5], initializer=v1.zeros_initializer(), trainable=False)
        move = v1.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(features["x"], 0)))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, move.op)
        never = v1.get_variable("never", [], initializer=v1.zeros_initializer(), trainable=False)
        unused = v1.assign_add(never, 1.0)
        assert unused is not None
        looked_up = tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)
        loss = tf.reduce_mean((network({"x": features["x"] - mean}, looked_up) - labels) ** 2)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            return spec_of(loss, minimize(loss))

    check(Program(model_fn, input_fn, CONFIG, "unused"), 2)


def test_point_68_a_sync_replicas_optimizer_is_understood() -> None:
    def sync(loss: tf.Tensor) -> Any:
        optimizer = v1.train.SyncReplicasOptimizer(v1.train.AdagradOptimizer(0.1), 3, 4)
        hook = optimizer.make_session_run_hook(True)
        assert type(hook) is v1.train.SessionRunHook
        return optimizer.minimize(loss, step())

    program = program_of(sync)
    survey = survey_program(program)
    assert survey.sync == (3, 4)


@pytest.mark.parametrize("lookup", ["lookup_v1", "vector"])
def test_point_68_synchronous_workers_apply_the_mean_of_their_gradients(lookup: str) -> None:
    program = program_of(clipped, LOOKUPS[lookup])
    model = CapturedModel(program, survey_program(program), True)
    cluster = InProcessCluster(model, 2, 2, None, 64, epochs=1, update="sync")
    cluster.start()
    initial = cluster.values()
    cluster.train(STEPS)
    found = cluster.values()
    for name, value in plain_values(program, initial, STEPS).items():  # both read the same batches
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def assigned_by_hand(loss: tf.Tensor) -> Any:
    (variable, *_) = v1.trainable_variables("dense")
    return variable.assign_sub(0.1 * tf.gradients(loss, variable)[0])


def rate_of_a_variable(loss: tf.Tensor) -> Any:
    rate = v1.get_variable("rate", [], initializer=v1.ones_initializer(), trainable=False)
    return v1.train.GradientDescentOptimizer(rate).minimize(loss, step())


def reads_afterwards(loss: tf.Tensor) -> Any:
    with tf.control_dependencies([minimize(loss)]):
        return v1.trainable_variables("dense")[0].read_value()


def twice(loss: tf.Tensor) -> Any:
    return tf.group(minimize(loss), minimize(loss))


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (assigned_by_hand, "no optimizer of tf.compat.v1.train applies gradients"),
        (rate_of_a_variable, r"learning_rate of GradientDescentOptimizer depends on rate \(VarHandleOp\)"),
        (reads_afterwards, r"\(ReadVariableOp\) runs after the optimizer's update"),
        (twice, "variable .* is updated twice in a step"),
    ],
    ids=lambda value: getattr(value, "__name__", "-"),
)
def test_point_72_what_cannot_be_captured_says_why(train: Callable[[tf.Tensor], Any], reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        survey_program(program_of(train))


def test_point_47_tensors_of_an_iterator_features_alone_and_constant_tensors() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [5, 1], initializer=v1.ones_initializer())
        loss = tf.reduce_mean((features["x"] @ w - (0.5 if labels is None else labels)) ** 2)
        return spec_of(loss, minimize(loss))

    def tensors() -> Any:
        features, labels = v1.data.make_one_shot_iterator(input_fn()).get_next()
        return {"x": 2 * features["x"]}, labels

    def features_alone() -> Any:
        return tf.data.Dataset.from_tensor_slices({"x": X}).repeat().batch(BATCH)

    def constants() -> Any:
        return {"x": tf.constant(X)}, tf.constant(Y)

    def numbers(program_input: Callable[[], Any]) -> np.ndarray:
        program = Program(model_fn, program_input, CONFIG, "unused")
        cluster = InProcessCluster(CapturedModel(program, survey_program(program), True), 1, 1, epochs=1)
        cluster.start()
        cluster.train(3)
        return cluster.values()["w"]

    def expected(batches: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        w, total = np.ones([5, 1]), np.full([5, 1], 0.1)
        for x, y in batches:
            gradient = 2 * x.T @ (x @ w - y) / len(x)
            total += gradient**2
            w -= 0.1 * gradient / np.sqrt(total)
        return w

    three = [(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, 3 * BATCH, BATCH)]
    np.testing.assert_allclose(numbers(tensors), expected([(2 * x, y) for x, y in three]), rtol=1e-4)
    half = [(x, np.full_like(y, 0.5)) for x, y in three]
    np.testing.assert_allclose(numbers(features_alone), expected(half), rtol=1e-4)
    np.testing.assert_allclose(numbers(constants), expected([(X, Y)] * 3), rtol=1e-4)
