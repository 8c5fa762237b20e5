"""The variables that models make in any way: their names, what stands in for them, and what is refused."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.graphs.tracing import refusal, traced, weights


def assigning(x):
    w = weights()
    with tf.control_dependencies([w.assign(w * 2)]):
        return x @ w


def of_the_batch(x):
    return x @ weights() + tf.Variable(tf.reduce_mean(x))


def of_a_table(x):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1.0]), 0.0)
    return x @ weights() + tf.Variable(table.lookup(tf.constant("a")))


def in_capital_letters(x):
    return x @ tf.Variable(tf.zeros([4, 1]), name="W") + x @ weights()


@pytest.mark.parametrize(
    ("forward", "shown"),
    [
        (assigning, "assigns to variable w, which the optimizer trains: make it with trainable=False"),
        (lambda x: x @ weights().handle, "variable w has no handle"),
        (of_the_batch, "initial value of variable Variable depends on the batch"),
        (of_a_table, "which has no value yet"),
        (in_capital_letters, "two variables are called w"),
        (lambda x: x @ tf.Variable(tf.zeros([4, 1]), name="w") + x @ weights(), "two variables are called w"),
        (lambda x: x @ weights(constraint=abs), "variable w has a constraint"),
        (lambda x: x @ tf.Variable(tf.zeros([4, 1]), constraint=abs), "variable Variable has a constraint"),
        (lambda x: x @ weights() + tf.math.real(tf.Variable([1j], name="c", dtype=tf.complex64)), "c is of complex64"),
    ],
)
def test_what_cannot_be_shared_is_refused_in_one_line(forward, shown):
    message = refusal(forward)
    assert shown in message and "\n" not in message


def test_names_of_variables_are_those_of_a_plain_graph():
    def forward(features):
        found = [tf.Variable(0.0), tf.Variable(0.0), tf.Variable(0.0, name="n"), tf.Variable(0.0, name="N")]
        with tf.name_scope("a"):
            found += [tf.Variable(0.0), tf.Variable(0.0)]
        with tf.name_scope("a"), v1.variable_scope("b"):
            found += [v1.Variable(0.0, name="n"), weights(shape=[])]
        names.append([one.op.name for one in found])
        return features @ weights("m") + tf.add_n(found)

    names: list[list[str]] = []
    with tf.Graph().as_default():
        forward(tf.zeros([2, 4]))
    variables = traced(forward).variables
    assert names[0] == names[1] == [*variables][:-1]


def test_a_local_variable_that_is_asked_for_again_is_the_same():
    def forward(features):
        local = v1.get_local_variable("n", initializer=0.0)
        with v1.variable_scope("", reuse=True):
            assert v1.get_variable("n", []) is local
        return features @ weights() + local

    assert list(traced(forward).variables) == ["w"]


def test_get_variable_and_a_variable_of_the_same_name_are_two_where_the_number_is_free():
    def forward(features):
        return features @ weights() + features @ tf.Variable(tf.zeros([4, 1]), name="w")

    assert list(traced(forward).variables) == ["w", "w_1"]
