"""Initial values that are pieces of a model's graph, computed again in another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.engine.variables.initial_tensor import Value, extract_initial_value


def copied(build: Callable[[], tf.Tensor], known: Mapping[str, Value] | None = None, seed: int = 3) -> np.ndarray:
    """The value of a tensor of one graph in another one."""
    with tf.Graph().as_default():
        initial = extract_initial_value("w", build(), known or {})
    return computed(initial, seed)


def computed(initial: Any, seed: int, job_seed: int = 1) -> np.ndarray:
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(initial.tensor(seed, job_seed))


def branched() -> tf.Tensor:
    return tf.cond(tf.constant(2) > 1, lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([3.0, 4.0]))


def looped() -> tf.Tensor:
    return tf.while_loop(lambda n, total: n < 4, lambda n, total: (n + 1, total + n * n), [0, 0])[1]


def after_others() -> tf.Tensor:
    """It depends on the batch, but only in time; and it has a device and a colocation."""
    batch = v1.placeholder(tf.float32, [])
    one = tf.constant(1.0)
    with tf.control_dependencies([batch]), v1.device("/job:worker/task:7/device:GPU:3"), v1.colocate_with(one):
        return tf.constant([1.0, 2.0]) * 2.0


CONSTANT = {
    "constant": (lambda: tf.constant([[1.0, 2.0]]), [[1.0, 2.0]]),
    "computed": (lambda: tf.reduce_sum(tf.range(5)) * tf.ones([2], tf.int32), [10, 10]),
    "second output": (lambda: tf.split(tf.range(4), 2)[1], [2, 3]),
    "branch": (branched, [1.0, 2.0]),
    "loop": (looped, 14),
    "function": (lambda: tf.function(lambda: tf.constant(5) + 1)(), 6),
    "apart": (after_others, [2.0, 4.0]),
}


@pytest.mark.parametrize(("build", "value"), CONSTANT.values(), ids=CONSTANT)
def test_a_value_of_constants_is_the_same_in_another_graph(build: Callable[[], tf.Tensor], value: Any) -> None:
    np.testing.assert_array_equal(copied(build), value)


def both() -> tf.Tensor:
    return tf.stack([v1.random_uniform([8]), v1.random_uniform([8])])


def test_random_numbers_depend_on_the_given_seed_alone_and_differ_from_each_other() -> None:
    first = copied(both)
    np.testing.assert_array_equal(first, copied(both))
    assert not np.array_equal(first, copied(both, seed=4))
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize("own", [{"seed": 5}, {"graph": 6}])
def test_random_numbers_with_a_seed_of_their_own_keep_it(own: dict[str, int]) -> None:
    def build() -> tf.Tensor:
        if "graph" in own:
            v1.set_random_seed(own["graph"])
        return v1.random_normal([8], seed=own.get("seed"))

    with tf.Graph().as_default(), v1.Session() as session:
        expected = session.run(build())
    np.testing.assert_array_equal(copied(build), expected)
    np.testing.assert_array_equal(copied(build, seed=4), expected)


def test_the_nodes_of_an_initial_value_are_not_changed_by_its_use() -> None:
    with tf.Graph().as_default():
        initial = extract_initial_value("w", both(), {})
    before = initial.nodes.SerializeToString(deterministic=True)
    assert not np.array_equal(computed(initial, 3), computed(initial, 4))
    assert initial.nodes.SerializeToString(deterministic=True) == before
    assert {node.device for node in initial.nodes.node} == {""}


def of_other(read: Callable[[Any], tf.Tensor], is_value: bool = False) -> Any:
    """The initial value of a variable that is computed from another one, which begins with the job's seed."""
    with tf.Graph().as_default():
        other = v1.get_variable("other", [2], initializer=v1.zeros_initializer(), use_resource=True)
        value = other.read_value() if is_value else None
        key = value.name if is_value else other.handle.name
        tensor = read(value if is_value else other)
        return extract_initial_value("w", tensor, {key: lambda job_seed: tf.fill([2], float(job_seed))})


@pytest.mark.parametrize("is_value", [False, True])
def test_the_value_of_another_variable_is_its_initial_value_for_the_job_s_seed(is_value: bool) -> None:
    def read(other: Any) -> tf.Tensor:
        value = other if is_value else tf.cond(other.is_initialized(), other.read_value, lambda: other.initial_value)
        return tf.concat([value, value * 2.0], 0)

    initial = of_other(read, is_value)
    assert computed(initial, 3, job_seed=5).tolist() == [5, 5, 10, 10]
    assert list(initial.others)


def test_a_value_that_is_another_variable_s_needs_no_node() -> None:
    initial = of_other(lambda value: value, is_value=True)
    assert not initial.nodes.node and computed(initial, 3, job_seed=8).tolist() == [8, 8]


def test_a_conditional_read_is_found_in_the_old_control_flow_too() -> None:
    v1.disable_control_flow_v2()
    try:
        initial = of_other(
            lambda other: v1.cond(tf.identity(other.is_initialized()), other.read_value, lambda: other.initial_value)
        )
    finally:
        v1.enable_control_flow_v2()
    assert computed(initial, 3, job_seed=9).tolist() == [9, 9]


def of_batch() -> tf.Tensor:
    return tf.reduce_mean(v1.placeholder(tf.float32, [None, 2]), 0)


def of_default() -> tf.Tensor:
    return v1.placeholder_with_default(tf.zeros([2]), [2]) + 1.0


def of_input() -> tf.Tensor:
    return v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()


@pytest.mark.parametrize("build", [of_batch, of_default, of_input])
def test_a_value_that_depends_on_the_batch_is_refused(build: Callable[[], tf.Tensor]) -> None:
    with pytest.raises(ModelError, match=r"initial value of variable w depends on the batch: use constants"):
        copied(build)


def test_a_value_of_a_variable_without_one_is_refused_with_its_name() -> None:
    def build() -> tf.Tensor:
        return v1.get_variable("late", [2], use_resource=True) * 2.0

    with pytest.raises(ModelError, match=r"depends on late \(VarHandleOp\), which has no value yet"):
        copied(build)
