"""Names in the graph of a model: its variables are their values there."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.model_variable import ModelVariable
from ps_train.engine.variables.seeded_graph import SeededGraph
from ps_train.engine.variables.user_variables import variables_provided_by


def test_the_name_of_a_variable_of_the_model_is_its_value() -> None:
    with SeededGraph(1).as_default() as graph, v1.Session() as session:
        with variables_provided_by(lambda getter, name, *args, **options: tf.constant([3.0], name="pulled")):
            made = v1.get_variable("scope/w", [1])
            doubled = tf.multiply(made, 2.0, name="doubled")
        assert isinstance(made, ModelVariable) and graph.get_tensor_by_name("scope/w:0") is made.value()
        assert graph.get_operation_by_name("scope/w") is made.value().op
        assert [list(each) for each in session.run(["scope/w:0", doubled, "doubled:0"])] == [[3], [6], [6]]
        assert list(session.run("doubled:0", {"scope/w:0": [5.0]})) == [10]
        with pytest.raises(KeyError):
            graph.get_tensor_by_name("other:0")
