"""Walks through a graph find what an operation needs, and what needs it."""

from __future__ import annotations

import tensorflow as tf

from ps_train.compat.capture.counted_step import ancestors, readers


def names(operations: list[tf.Operation]) -> set[str]:
    return {operation.name for operation in operations}


def test_ancestors_are_those_by_data_and_if_asked_by_control() -> None:
    with tf.Graph().as_default():
        first = tf.constant(1.0, name="first")
        with tf.control_dependencies([tf.no_op("before")]):
            second = tf.add(first, 1.0, name="second")
        third = tf.add(second, 2.0, name="third")
    assert names(ancestors(third.op)) == {"first", "second", "second/y", "third", "third/y"}
    assert names(ancestors(third.op, with_control=True)) == names(ancestors(third.op)) | {"before"}
    assert names(ancestors(third.op, stop={second.op})) == {"second", "third", "third/y"}


def test_readers_are_found_behind_those_that_do_nothing() -> None:
    with tf.Graph().as_default():
        first = tf.no_op("first")
        with tf.control_dependencies([first]):
            group = tf.no_op("group")
            with tf.control_dependencies([group]):
                value = tf.identity(tf.zeros([]), name="value")
        computed = tf.add(value, 1.0, name="computed")
        tf.add(computed, 1.0, name="further")
    found = names(readers(first, through=("NoOp", "Identity", "Const")))
    assert {"group", "value", "computed"} <= found and "further" not in found
    assert "computed" not in names(readers(first, through=("NoOp",)))
