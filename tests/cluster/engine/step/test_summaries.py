"""Summaries that a model makes: which a call can fetch, under which names, and which are refused in a warning."""

from __future__ import annotations

import logging

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.summaries import collecting_summaries, summaries_of


def build(model, times=1):
    """The graph of a model that is built so many times."""
    with tf.Graph().as_default() as graph:
        for _ in range(times):
            with v1.name_scope("model"), collecting_summaries():
                model()
    return graph


def tags(graph):
    with v1.Session(graph=graph) as session:
        texts = session.run(summaries_of(graph))
    return [value.tag for text in texts for value in v1.Summary.FromString(text).value]


def plain():
    v1.summary.scalar("x", 1.0)
    with v1.name_scope("deep"):
        v1.summary.histogram("h", tf.zeros([3]))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_names_do_not_depend_on_how_often_the_model_is_built(times, caplog):
    with caplog.at_level(logging.WARNING, "ps_train"):
        assert tags(build(plain, times)) == ["model/x", "model/deep/h"]
    assert caplog.records == []


def test_a_model_without_summaries_has_none():
    assert summaries_of(build(lambda: tf.constant(1.0))) == []
    assert summaries_of(tf.Graph()) == []


def branch():
    tf.cond(v1.placeholder_with_default(True, []), lambda: v1.summary.scalar("b", 1.0), lambda: tf.constant(""))


def loop():
    def body(i):
        v1.summary.scalar("l", 1.0)
        return i + 1

    tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])


def function():
    @tf.function
    def inner(x):
        v1.summary.scalar("f", x)
        return x

    inner(tf.constant(1.0))


@pytest.mark.parametrize("inside", [branch, loop, function])
def test_a_summary_that_cannot_be_fetched_is_named_and_breaks_nothing(inside, caplog):
    def model():
        plain()
        inside()

    with caplog.at_level(logging.WARNING, "ps_train"):
        assert tags(build(model)) == ["model/x", "model/deep/h"]
    (record,) = caplog.records
    assert "branch, loop or function is not written" in record.getMessage()
    assert "test_summaries.py, line " in record.getMessage()


def test_a_summary_of_tensorflow_2_is_named_with_what_to_use(caplog):
    def model():
        plain()
        tf.summary.scalar("second", tf.constant(1.0), step=1)

    with caplog.at_level(logging.WARNING, "ps_train"):
        assert tags(build(model)) == ["model/x", "model/deep/h"]
    (record,) = caplog.records
    assert 'tf.summary.scalar("second"' in record.getMessage() and "tf.compat.v1.summary" in record.getMessage()
