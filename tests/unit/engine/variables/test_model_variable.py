"""The object that a model gets for a trained variable has what a variable has."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.engine.variables.model_variable import ModelVariable
from tests.support.graphs.tracing import traced, weights


def test_a_value_in_place_of_a_variable_has_what_a_variable_has():
    def forward(features):
        w = weights()
        assert not hasattr(w, "handle") and isinstance(w, v1.Variable)
        with pytest.raises(TypeError, match="not iterable"):
            list(w)
        assert w.op.graph is w.graph is features.graph
        with tf.control_dependencies([w.op]):
            return features @ (w.initialized_value() + 0 * w.value() + w - w)

    assert traced(forward).with_gradient() == ["w"]


def test_a_saver_that_would_restore_the_value_is_refused():
    with tf.Graph().as_default():
        variable = ModelVariable("layer/w", tf.constant([1.0, 2.0]))
        with pytest.raises(ModelError, match="assigns to variable layer/w"):
            v1.train.Saver([variable])
