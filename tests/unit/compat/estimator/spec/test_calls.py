"""User functions of every kind get the arguments that they name, and copies of what they could change."""

from __future__ import annotations

import functools
import sys
from typing import Any

import pytest
import tensorflow as tf

from ps_train.compat.estimator.spec.calls import (
    argument_names,
    bind_input_fn,
    bind_model_fn,
    call_by_name,
    check_model_fn,
    name_of,
)
from ps_train.compat.estimator.spec.run_config import RunConfig


def plain(features: Any, labels: Any, mode: str) -> Any:
    return features, labels, mode


class Model:
    def method(self, features: Any, mode: str) -> Any:
        return features, mode

    @classmethod
    def of_class(cls, features: Any, params: Any) -> Any:
        return features, params

    @staticmethod
    def static(features: Any, *, config: Any = None) -> Any:
        return features, config

    def __call__(self, features: Any, labels: Any) -> Any:
        return features, labels


def passing_on(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def taking_less(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(features: Any) -> Any:
        return function(features, None, None)

    return wrapper


VALUES = {"features": 1, "labels": 2, "mode": "train", "params": {"a": 4}, "config": 5}


@pytest.mark.parametrize(
    ("function", "names", "result"),
    [
        (plain, ("features", "labels", "mode"), (1, 2, "train")),
        (lambda features, params: (features, params), ("features", "params"), (1, {"a": 4})),
        (Model().method, ("features", "mode"), (1, "train")),
        (Model.of_class, ("features", "params"), (1, {"a": 4})),
        (Model.static, ("features", "config"), (1, 5)),
        (Model(), ("features", "labels"), (1, 2)),
        (functools.partial(plain, mode="x"), ("features", "labels"), (1, 2, "x")),
        (functools.partial(functools.partial(plain, 0), labels=9), ("mode",), (0, 9, "train")),
        (functools.partial(Model().method, mode="y"), ("features",), (1, "y")),
        (passing_on(plain), ("features", "labels", "mode"), (1, 2, "train")),
        (functools.partial(passing_on(plain), mode="z"), ("features", "labels"), (1, 2, "z")),
        (taking_less(plain), ("features",), (1, None, None)),
    ],
)
def test_point_44_every_kind_of_function_gets_the_arguments_that_it_names(function, names, result):
    assert argument_names(function) == names
    assert call_by_name(function, VALUES) == result


def test_point_43_a_model_fn_must_be_there_and_take_features():
    with pytest.raises(ValueError, match="needs a model_fn"):
        check_model_fn(None, None)
    with pytest.raises(ValueError, match="no argument features"):
        check_model_fn(lambda labels, mode: None, None)


def test_point_43_params_that_are_given_must_be_taken():
    with pytest.raises(ValueError, match="no argument params, but params="):
        check_model_fn(plain, {"a": 1})
    with pytest.raises(ValueError, match="no argument params"):
        check_model_fn(functools.partial(lambda features, params: None, params=1), {"a": 1})
    check_model_fn(lambda features, params: None, {"a": 1})


def test_point_43_params_that_are_taken_and_not_given_are_a_warning(caplog):
    check_model_fn(lambda features, params: None, None)
    assert "takes params, and the Estimator has none" in caplog.text


def test_point_43_an_unknown_argument_is_refused_and_named():
    with pytest.raises(ValueError, match=r"model_fn f takes depth, which .*functools\.partial"):

        def f(features, labels, depth=3):
            return None

        check_model_fn(f, None)
    with pytest.raises(ValueError, match="takes depth"):
        check_model_fn(lambda features, *, depth: None, None)
    check_model_fn(lambda features, *, depth=3: None, None)
    check_model_fn(lambda features: None, None)


def test_point_46_an_input_fn_gets_mode_params_and_config_by_name():
    config = RunConfig(tf_random_seed=7)
    call = bind_input_fn(lambda mode, params, config: (mode, params, config.tf_random_seed), "eval", {"a": [1]}, config)
    assert call() == ("eval", {"a": [1]}, 7)
    assert bind_input_fn(lambda: 3, "eval", {}, config)() == 3


def test_point_46_an_input_fn_cannot_change_params():
    params = {"a": [1]}

    def input_fn(params):
        params["a"].append(2)
        return params["a"]

    call = bind_input_fn(input_fn, "train", params, RunConfig())
    assert call() == [1, 2] and call() == [1, 2] and params == {"a": [1]}


@pytest.mark.parametrize(
    ("function", "name"),
    [(plain, "plain"), (functools.partial(functools.partial(plain, 1), 2), "plain"), (Model(), "Model")],
)
def test_a_function_has_a_name_in_errors(function, name):
    assert name_of(function) == name


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from Python 3.11 on")
def test_a_dtype_error_of_a_model_fn_keeps_its_type_and_gets_a_note_that_names_the_labels():
    def model_fn(features: Any, labels: Any) -> Any:
        return tf.square(features["x"] - labels)

    call = bind_model_fn(model_fn, {}, RunConfig())
    with tf.Graph().as_default(), pytest.raises(TypeError, match="does not match type") as caught:
        call({"x": tf.ones([2])}, tf.ones([2], tf.int64), "train")
    assert caught.value.__notes__ == [
        "ps_train: labels are of int64: cast with tf.cast(x, tf.float32), or give float32 in data()."
    ]
