"""The variables that a survey finds are exactly those of a trace, or it leaves them to the trace."""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.cluster.membership.job_diff import diff_configs
from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.captured_training import train
from ps_train.compat.capture.estimator_program import CaptureError, Program
from ps_train.compat.capture.survey import survey_program
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables.trace import trace
from tests.support.compat.programs import ROWS, check_as_traced, embedding, minimize, network, program_of, spec_of


def mean_of(table: Any, features: Any) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)


def looked_up_late(features: Any) -> tf.Tensor:
    table = embedding()
    scale = v1.get_variable("scale", [4], initializer=v1.ones_initializer())
    return mean_of(table, features) * scale


def read_whole_too(features: Any) -> tf.Tensor:
    table = embedding()
    return mean_of(table, features) - tf.stop_gradient(tf.reduce_mean(table, 0))


def a_dense_one_is_gathered(features: Any) -> tf.Tensor:
    table = v1.get_variable("embedding", [ROWS, 4], initializer=v1.orthogonal_initializer(seed=1))
    return mean_of(table, features)


def with_state(features: Any) -> tf.Tensor:
    mean = v1.get_variable("mean", [4], initializer=v1.zeros_initializer(), trainable=False)
    v1.get_variable("never", [2], dtype=tf.int64, initializer=v1.zeros_initializer(), trainable=False)
    found = mean_of(embedding(partitioner=v1.fixed_size_partitioner(3)), features)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(found, 0))).op)
    v1.metrics.mean(tf.reduce_sum(found))
    v1.train.Saver(v1.global_variables())  # its restoring assigns every variable, which is not the model's doing
    return found - mean


def with_an_unused_one(features: Any) -> tf.Tensor:
    v1.get_variable("unused", [3, 3])
    v1.get_variable("by_array", initializer=[1.0, 2.0])
    with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
        return mean_of(embedding(), features) + mean_of(embedding(), features)


def by_tf_variable(features: Any) -> tf.Tensor:
    return mean_of(embedding(), features) * tf.Variable([1.0] * 4, name="scale")


def by_a_tensor(features: Any) -> tf.Tensor:
    return mean_of(embedding(), features) * v1.get_variable("scale", initializer=tf.fill([4], 2.0))


def with_a_constraint(features: Any) -> tf.Tensor:
    return mean_of(embedding(), features) * v1.get_variable("scale", [4], constraint=tf.nn.relu)


def with_its_own_gradient(features: Any) -> tf.Tensor:
    own = tf.custom_gradient(lambda x: (x * 2.0, lambda up: up * 2.0))
    return own(mean_of(embedding(), features))


def by_python_random(features: Any) -> tf.Tensor:
    return mean_of(embedding(), features) * random.random()


def in_a_table_of_ps_train(features: Any) -> tf.Tensor:
    return tf.reduce_mean(embeddings.lookup("embedding", features["ids"], rows=ROWS, dimension=4), 1)


def in_layers_of_keras(features: Any) -> tf.Tensor:
    found = mean_of(embedding(), features)
    for name in ("first", "second"):
        found = tf.keras.layers.Dense(4, kernel_initializer="glorot_uniform", name=name)(found)
    return found


def made_alike(features: Any) -> tf.Tensor:
    with v1.name_scope("scales"):
        first = tf.Variable(lambda: tf.random.normal([4]), name="scale")
        second = v1.Variable(tf.fill([4], 2.0), trainable=False, name="scale")
    return mean_of(embedding(), features) * first * second


def by_another(features: Any) -> tf.Tensor:
    first = tf.Variable([1.0] * 4, name="first")
    return mean_of(embedding(), features) * tf.Variable(2.0 * first, name="second")


KNOWN = [
    looked_up_late, read_whole_too, a_dense_one_is_gathered, with_state, with_an_unused_one, by_tf_variable,
    by_python_random, in_layers_of_keras, made_alike,
]  # fmt: skip
LEFT = [by_a_tensor, by_another, with_a_constraint, with_its_own_gradient, in_a_table_of_ps_train]


def of_lookup(look_up: Callable[[Any], tf.Tensor]) -> Program:
    return program_of(minimize, look_up)


def test_a_survey_finds_the_variables_of_a_trace() -> None:
    for look_up in KNOWN:
        program = of_lookup(look_up)
        survey = survey_program(program)
        assert survey.variables is not None, look_up.__name__
        model = CapturedModel(program, survey, True)
        check_as_traced(survey, trace(model, DataSource(lambda model=model: model.data("train", "")), 1, 1))
        model.check_made(survey.variables)


def test_names_that_mean_other_variables_in_another_task_are_found() -> None:
    def described(scales: list[float]) -> dict[str, Any]:
        def look_up(features: Any) -> tf.Tensor:
            weights = [tf.Variable(tf.ones([1, 1]), name="w") * scale for scale in scales]
            return mean_of(embedding(), features) * tf.add_n(weights)

        found = survey_program(of_lookup(look_up)).variables
        assert found is not None
        return found.described()

    assert diff_configs(described([1.0, 2.0]), described([1.0, 2.0]), "the chief", "worker:1") == []
    first, second = diff_configs(described([1.0, 2.0]), described([2.0, 1.0]), "the chief", "worker:1")
    assert first == "variable w: at the chief what w_1 is at worker:1" and second.startswith("variable w_1: ")


def test_a_survey_leaves_to_a_trace_what_only_a_trace_can_tell() -> None:
    for look_up in LEFT:
        assert survey_program(of_lookup(look_up)).variables is None, look_up.__name__


def otherwise_with_values(features: Any) -> tf.Tensor:
    table = embedding()
    if not type(table).__module__.startswith("tensorflow."):
        v1.get_variable("another", [3])
    return mean_of(table, features)


def test_a_model_that_makes_other_variables_with_values_is_found_out() -> None:
    program = of_lookup(otherwise_with_values)
    survey = survey_program(program)
    assert survey.variables is not None
    model = CapturedModel(program, survey, True)
    found = trace(model, DataSource(lambda: model.data("train", "")), 1, 1)
    assert "another" in found.variables
    with pytest.raises(CaptureError, match="other variables"):
        model.check_made(survey.variables)


@pytest.mark.long
def test_a_training_calls_the_model_fn_twice_and_once_more_for_a_trace(tmp_path: pathlib.Path) -> None:
    def calls_of(look_up: Callable[[Any], tf.Tensor], name: str) -> int:
        calls = []

        def model_fn(features: Any, labels: Any, mode: str) -> Any:
            calls.append(mode)
            loss = tf.reduce_mean((network(features, look_up(features)) - labels) ** 2)
            return spec_of(loss, minimize(loss))

        program = dataclasses.replace(of_lookup(look_up), model_fn=model_fn)
        directory = str(tmp_path / name)
        config = RunConfig(directory, tf_random_seed=7, save_checkpoints_steps=4, save_summary_steps=2)
        assert train(dataclasses.replace(program, config=config, model_dir=directory, max_steps=2)) == 2
        return len(calls)

    assert calls_of(looked_up_late, "known") == 2
    # A survey, a step that cannot be built as surveyed, a trace, and the step.
    assert calls_of(otherwise_with_values, "otherwise") == 4
    assert calls_of(by_a_tensor, "traced") == 3
