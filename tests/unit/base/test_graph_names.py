"""Names of a graph: that of a variable is its value, also where the variable is a resource."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.graph_names import NamedValuesGraph


def test_the_name_of_a_resource_variable_is_its_value() -> None:
    with NamedValuesGraph().as_default() as graph, v1.Session() as session:
        variable = v1.get_variable("w", initializer=[1.0, 2.0], use_resource=True)
        session.run(variable.initializer)
        by_name = graph.get_tensor_by_name("w:0")
        shown = v1.train.LoggingTensorHook(["w:0"], every_n_iter=1)
        shown.begin()
        assert [list(each) for each in session.run(["w:0", by_name, tf.gradients(by_name, [by_name])[0]])] == [
            [1, 2],
            [1, 2],
            [1, 1],
        ]
        assert graph.get_operation_by_name("w") is variable.handle.op


def test_a_finished_graph_without_a_reading_operation_gets_one() -> None:
    with NamedValuesGraph().as_default() as graph, v1.Session() as session:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="w", name="w")
        session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=3.0))
        graph.finalize()
        assert session.run("w:0") == 3
        assert session.run(["w:0", graph.get_tensor_by_name("w:0")]) == [3, 3] and graph.finalized


def test_a_variable_is_made_of_its_description_with_its_handle() -> None:
    with tf.Graph().as_default():
        v1.get_variable("w", [2], use_resource=True)
        described = v1.train.export_meta_graph()
    with NamedValuesGraph().as_default() as graph:
        v1.train.import_meta_graph(described)
        (variable,) = v1.global_variables()
        assert variable.handle.dtype == tf.resource and graph.get_tensor_by_name("w:0").dtype == tf.float32
