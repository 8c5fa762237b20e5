"""A model that is built with values and rows that are there already."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.base.errors import ModelError
from ps_train.engine.step.forward import substituting_variables, with_lookups
from ps_train.engine.variables.user_variables import UnknownVariableError
from ps_train.modeling.tables.deferred_lookups import FetchedRows
from tests.support.graphs.tracing import traced


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_model_gets_the_given_values_and_variables_and_makes_none() -> None:
    count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
    before = v1.global_variables()
    with substituting_variables({"w": np.float32([1, 2]), "b": tf.constant(3.0)}, {"count": count}):
        w, b = v1.get_variable("w", [2]), tf.Variable(0.0, name="b")
        same = v1.get_variable("count", [], tf.int64, trainable=False)
        total = tf.reduce_sum(w) + b
    assert same is count and v1.global_variables() == before
    with v1.Session() as session:
        assert session.run(total) == 6


def test_a_variable_of_neither_is_refused() -> None:
    with (
        pytest.raises(UnknownVariableError, match=r"forward\(\) made variable other, which it did not make"),
        substituting_variables({"w": tf.zeros(2)}, {}),
    ):
        v1.get_variable("other", [2])


def test_a_value_that_is_asked_for_in_a_branch_may_be_used_outside_of_it() -> None:
    with substituting_variables({"w": np.float32([1, 2])}, {}):
        inside = tf.cond(tf.constant(True), lambda: v1.get_variable("w", [2]) * 2.0, lambda: tf.zeros(2))
        outside = v1.get_variable("w", [2]) if False else inside + 1.0
    with v1.Session() as session:
        assert session.run(outside).tolist() == [3, 5]


def test_a_regularizer_gets_the_wide_value_where_there_is_one() -> None:
    narrow, wide = tf.constant([1.0, 2.0], tf.bfloat16), tf.constant([3.0, 4.0])
    with substituting_variables({"w": narrow, "v": wide}, {}, regularized={"w": wide}):
        for name in ("w", "v"):
            v1.get_variable(name, [2], regularizer=lambda value: tf.reduce_sum(tf.cast(value, tf.float32)))
        losses = v1.losses.get_regularization_losses()
    with v1.Session() as session:
        assert session.run(losses) == [7, 7]


def tables_of(*names: str):
    """The variables of a model that looks up some tables."""

    def forward(features):
        rows = [embeddings.lookup(name, tf.constant([1]), rows=5, dimension=1) for name in names]
        return features @ v1.get_variable("w", [4, 1]) + sum(tf.reduce_sum(one) for one in rows)

    return traced(forward)


def look_up(*names: str) -> list[tf.Tensor]:
    return [embeddings.lookup(name, tf.constant([1, 2, 1]), rows=5, dimension=1) for name in names]


def test_lookups_are_answered_together_at_the_end_of_the_body() -> None:
    asked = []

    def fetch(requests):
        asked.append(sorted(requests))
        index = tf.constant([0, 1, 0])
        return {name: FetchedRows(tf.constant([[7.0 + n], [8.0]]), index) for n, name in enumerate(sorted(requests))}

    with with_lookups(fetch, tables_of("a", "b"), tf.bfloat16) as lookups:
        found = look_up("b", "a")
        assert asked == []
    assert asked == [["a", "b"]] and {one.dtype for one in found} == {tf.bfloat16}
    with v1.Session() as session:
        found, rows = session.run(([tf.cast(one, tf.float32) for one in found], lookups.rows()))
    assert [one[:, 0].tolist() for one in found] == [[8, 8, 8], [7, 8, 7]]
    assert rows["a"].tolist() == [[7], [8]] and rows["a"].dtype == np.float32


def test_without_tables_nothing_is_fetched() -> None:
    with with_lookups(lambda requests: pytest.fail("fetched"), tables_of()) as lookups:
        pass
    assert lookups.rows() == {}


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (["a"], ["a", "b"], "the tables a, b, but at its first call a"),
        (["a"], [], "the tables none, but at its first call a"),
        ([], ["b"], "the tables b, but at its first call none"),
    ],
)
def test_other_tables_than_in_the_trace_are_refused(before: list[str], now: list[str], text: str) -> None:
    with (
        pytest.raises(ModelError, match=f"looked up {text}: look up the same tables at every call"),
        with_lookups(lambda requests: pytest.fail("fetched"), tables_of(*before)),
    ):
        look_up(*now)
