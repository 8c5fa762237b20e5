"""Variables of which a model_fn only looks up rows are tables, whatever the function that looks them up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.survey import survey_program
from ps_train.engine.step.effects import ancestors
from ps_train.engine.step.summaries import summaries_of
from tests.support.clusters.cluster import InProcessCluster
from tests.support.compat.programs import LOOKUPS, ROWS, check, embedding, minimize, plain_values, program_of
from tests.support.long import long

ALWAYS = {"lookup_v1", "sparse", "column", "linear_column"}


@pytest.mark.parametrize("lookup", [name if name in ALWAYS else long(name) for name in LOOKUPS])
@pytest.mark.usual(1)
def test_point_70_a_variable_that_is_looked_up_travels_by_rows(lookup: str) -> None:
    survey = check(program_of(minimize, LOOKUPS[lookup]), 2)
    assert len(survey.looked_up) == 1


def test_point_70_a_variable_that_is_read_whole_too_travels_whole() -> None:
    def both(features: Any) -> tf.Tensor:
        found = embedding()
        return tf.reduce_mean(tf.nn.embedding_lookup(found, features["ids"]), 1) + 0.1 * tf.reduce_sum(found)

    assert check(program_of(minimize, both), 2).looked_up == {}


def test_a_variable_whose_rows_depend_on_other_rows_travels_whole() -> None:
    def look_up(features: Any) -> tf.Tensor:
        rows = tf.nn.embedding_lookup(embedding(), features["ids"])
        places = v1.get_variable("places", [16, 4], initializer=v1.random_normal_initializer(seed=5))
        return tf.reduce_mean(rows * tf.nn.embedding_lookup(places, tf.range(tf.shape(rows)[1])), 1)

    assert list(check(program_of(minimize, look_up), 2).looked_up) == ["embedding"]


PRE = np.random.default_rng(8).normal(size=(ROWS, 4)).astype(np.float32)


def _column(features: Any, initializer: Any) -> tf.Tensor:
    identity = tf.feature_column.categorical_column_with_identity("ids", ROWS)
    column = tf.feature_column.embedding_column(identity, 4, initializer=initializer)
    return v1.feature_column.input_layer({"ids": features["ids"]}, [column])


def _variable(features: Any, initializer: Any) -> tf.Tensor:
    rows = v1.get_variable("rows", [ROWS, 4], initializer=initializer, partitioner=v1.fixed_size_partitioner(3))
    return tf.reduce_sum(v1.nn.embedding_lookup(rows, features["ids"]), 1)


@pytest.mark.long
@pytest.mark.parametrize("lookup", [_column, _variable])
@pytest.mark.parametrize("num_ps", [1, 3])
def test_a_looked_up_variable_begins_with_given_rows(lookup: Any, num_ps: int) -> None:
    program = program_of(minimize, lambda features: lookup(features, v1.constant_initializer(PRE)))
    survey = survey_program(program)
    assert len(survey.looked_up) == 1
    cluster = InProcessCluster(CapturedModel(program, survey, True), num_ps, 1, None, 64, epochs=1)
    cluster.start()
    (name,) = (name for name, value in cluster.values().items() if value.shape == PRE.shape and "Adagrad" not in name)
    assert np.array_equal(cluster.values()[name], PRE)


def _read_before(features: Any) -> tf.Tensor:
    found = embedding()
    v1.summary.scalar("of_all", tf.reduce_sum(found))
    return tf.reduce_mean(tf.nn.embedding_lookup(found, features["ids"]), 1)


def _read_after(features: Any) -> tf.Tensor:
    found = embedding()
    rows = tf.reduce_mean(tf.nn.embedding_lookup(found, features["ids"]), 1)
    v1.summary.histogram("values", found)
    v1.summary.scalar("of_all", tf.reduce_sum(found[:, :]))
    v1.summary.scalar("zeros", v1.cond(tf.size(found) > 3, lambda: tf.math.zero_fraction(found), lambda: tf.zeros([])))
    return rows


def _linear(features: Any) -> tf.Tensor:
    column, kept = tf.feature_column.categorical_column_with_identity("ids", ROWS), dict[str, Any]()
    looked_up = v1.feature_column.linear_model({"ids": features["ids"]}, [column], cols_to_vars=kept)
    weights = tf.concat([tf.reshape(weight, [-1]) for weight in kept[column]], 0)
    v1.summary.scalar("of_all", tf.reduce_sum(weights))
    return tf.tile(looked_up, [1, 4])


@pytest.mark.parametrize("look_up", [_read_before, _read_after, _linear])
@pytest.mark.parametrize("num_ps", [1, 2])
@pytest.mark.usual(3)
def test_a_variable_that_only_a_summary_reads_whole_travels_whole_with_the_summary_alone(
    look_up: Any, num_ps: int
) -> None:
    program = program_of(minimize, look_up)
    survey = survey_program(program)
    (name,) = survey.looked_up
    cluster = InProcessCluster(CapturedModel(program, survey, True), num_ps, 1, None, 64, epochs=1)
    cluster.start()
    initial = cluster.values()
    cluster.train(3)
    expected = plain_values(program, initial, 3)[name]
    np.testing.assert_array_equal(cluster.values()[name], expected)
    step = cluster.steps[0]
    summaries = summaries_of(step.graph)
    texts = cluster.sessions[0].run(summaries)
    values = {value.tag.rpartition("/")[2]: value for text in texts for value in v1.Summary.FromString(text).value}
    np.testing.assert_allclose(values["of_all"].simple_value, expected.sum(), rtol=1e-5)
    whole = {op for op in ancestors([summary.op for summary in summaries]) if op.type == "ReadVariableOp"}
    assert len([op for op in whole if op.inputs[0].op.name.startswith(name)]) == num_ps
    assert whole.isdisjoint(ancestors([*step.ops.train, step.worker.loss.op]))
