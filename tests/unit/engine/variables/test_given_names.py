"""The name that code gives to a variable does not depend on where it is called."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.given_names import given_names

NAMES = ["got", "inner/got", "stats/power", "power", "power", "Variable"]


def names_in(place: Callable[[Callable[[], Any]], Any]) -> list[str]:
    found: list[str] = []

    def make() -> tf.Tensor:
        with given_names() as names:
            with tf.init_scope():
                made = [v1.get_variable("got", [])]
                with v1.variable_scope("inner"):
                    made.append(v1.get_variable("got", []))
                with tf.name_scope("stats"):
                    made.append(v1.Variable(0.0, name="power"))
                made += [v1.Variable(0.0, name="power"), v1.Variable(0.0, name="power"), v1.Variable(0.0)]
            found.extend(names[id(one)] for one in made)
        return tf.constant(1.0)

    with tf.Graph().as_default():
        v1.Variable(0.0, name="power")  # the name is taken
        place(make)
    return found


def in_scopes(make: Callable[[], Any]) -> None:
    with v1.variable_scope("outer/inner"), tf.name_scope("train"):
        make()


def in_a_condition(make: Callable[[], Any]) -> None:
    tf.cond(tf.constant(True), make, lambda: tf.constant(0.0))


def in_a_condition_of_tensorflow_1(make: Callable[[], Any]) -> None:
    was_new = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    with contextlib.ExitStack() as after:
        after.callback(v1.enable_control_flow_v2 if was_new else v1.disable_control_flow_v2)
        v1.cond(tf.constant(True), lambda: v1.cond(tf.constant(True), make, make_nothing), make_nothing)


def make_nothing() -> tf.Tensor:
    return tf.constant(0.0)


def in_a_function(make: Callable[[], Any]) -> None:
    tf.function(make)()


@pytest.mark.parametrize(
    "place", [lambda make: make(), in_scopes, in_a_condition, in_a_condition_of_tensorflow_1, in_a_function]
)
def test_names_are_the_given_ones_in_every_place(place: Callable[[Callable[[], Any]], Any]) -> None:
    assert names_in(place) == NAMES
