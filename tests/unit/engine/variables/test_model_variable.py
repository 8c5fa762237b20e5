"""The object that a model gets for a trained variable has what a variable has."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.tracing import traced, weights


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
