"""The public names are those of tf.estimator, and what is not there says why in one line."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf

from ps_train import estimator
from ps_train.compat.estimator.canned import refusal_of, refuse_keras_optimizer


def test_every_listed_name_is_there_and_the_list_is_sorted():
    assert sorted(estimator.__all__) == estimator.__all__ == list(dict.fromkeys(estimator.__all__))
    assert all(getattr(estimator, name) is not None for name in estimator.__all__)
    modules = [name for name in estimator.__all__ if isinstance(getattr(estimator, name), types.ModuleType)]
    assert modules == ["experimental", "export", "inputs"]


@pytest.mark.parametrize("name", ["experimental", "export", "inputs"])
def test_a_namespace_has_what_it_lists(name):
    namespace = getattr(estimator, name)
    assert namespace.__all__ and all(hasattr(namespace, listed) for listed in namespace.__all__)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TPUEstimator", "does not train on TPUs"),
        ("model_to_estimator", "build the layers in a model_fn"),
        ("Estimater", "__all__"),
    ],
)
def test_a_name_that_is_not_there_says_why(name, text):
    with pytest.raises(AttributeError, match=text) as raised:
        getattr(estimator, name)
    assert "\n" not in str(raised.value) and not hasattr(estimator, name)


def test_a_name_that_is_there_is_not_refused():
    assert [name for name in estimator.__all__ if refusal_of(name)] == []


class MyAdagrad(tf.keras.optimizers.Adagrad):
    pass


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        (tf.keras.optimizers.Adam, "the optimizer Adam is .* use tf.train.AdamOptimizer$"),
        (MyAdagrad, "the optimizer Adagrad is .* use tf.train.AdagradOptimizer$"),
        (tf.keras.optimizers.SGD, "use tf.train.GradientDescentOptimizer, or MomentumOptimizer$"),
        (tf.keras.optimizers.Lamb, "the optimizer Lamb is .* use tf.train.AdamOptimizer$"),
    ],
)
def test_an_optimizer_of_keras_is_refused_with_that_of_tf_train(optimizer, text):
    with pytest.raises(ValueError, match=text):
        refuse_keras_optimizer(optimizer())


@pytest.mark.parametrize("optimizer", ["Adam", tf.compat.v1.train.AdamOptimizer(), lambda: None])
def test_other_optimizers_are_not_refused(optimizer):
    refuse_keras_optimizer(optimizer)
