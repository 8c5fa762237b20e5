"""Equal names of another meaning in two processes are found; other differences of models are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership.job_diff import diff_configs
from tests.support.graphs.tracing import traced

NAMES = ("alpha", "beta", "gamma", "delta")
FACTORS = {"alpha": 1.0, "beta": 2.0, "gamma": 3.0, "delta": 4.0}

Model = Callable[[Any, Sequence[str]], Any]


def by_factor(features: Any, names: Sequence[str]) -> Any:
    out: Any = 0.0
    for name in names:
        out += (features @ tf.Variable(tf.ones([4, 1]), name="w")) * FACTORS[name]
    return out


def by_initial_value(features: Any, names: Sequence[str]) -> Any:
    return tf.add_n([features @ tf.Variable(tf.fill([4, 1], FACTORS[name]), name="w") for name in names])


def by_array(features: Any, names: Sequence[str]) -> Any:
    arrays = {name: np.full([4, 1], factor, np.float32) for name, factor in FACTORS.items()}
    return tf.add_n([features @ tf.Variable(arrays[name], name="w") for name in names])


def by_input(features: Any, names: Sequence[str]) -> Any:
    columns = {name: features[:, number : number + 1] for number, name in enumerate(NAMES)}
    return tf.add_n([tf.tanh(columns[name] @ tf.Variable(tf.ones([1, 1]), name="w")) for name in names])


def by_function(features: Any, names: Sequence[str]) -> Any:
    functions = {"alpha": tf.tanh, "beta": tf.sigmoid, "gamma": tf.nn.relu, "delta": tf.identity}
    return tf.add_n([functions[name](features @ tf.Variable(tf.ones([4, 1]), name="w")) for name in names])


def differences(model: Model, theirs: Sequence[str], mine: Sequence[str], factor: float = 1.0) -> list[str]:
    left = json.loads(json.dumps(traced(lambda x: model(x, theirs)).described()))
    return diff_configs(left, traced(lambda x: model(x, mine) * factor).described(), "the chief", "worker:1")


@pytest.mark.parametrize("model", [by_factor, by_initial_value, by_array, by_input, by_function])
def test_the_same_names_in_another_order_are_found(model: Model) -> None:
    found = differences(model, NAMES, ["alpha", "gamma", "beta", "delta"])
    assert [line.partition(" (")[0] for line in found] == [
        "variable w_1: at the chief what w_2 is at worker:1",
        "variable w_2: at the chief what w_1 is at worker:1",
    ]
    assert "in the same order in every process" in found[-1]
    assert differences(model, NAMES, NAMES) == []


def test_models_that_differ_otherwise_are_left_alone() -> None:
    assert differences(by_factor, NAMES, NAMES, 2.0) == []
    assert differences(by_initial_value, NAMES, ["alpha", "beta", "gamma", "gamma"]) == []


def test_variables_with_names_of_their_own_may_be_made_in_any_order() -> None:
    def model(features: Any, names: Sequence[str]) -> Any:
        return tf.add_n([features @ v1.get_variable(name, [4, 1]) * FACTORS[name] for name in names])

    assert differences(model, NAMES, NAMES[::-1]) == []
