"""Which calls change the global step."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.global_step_runs import GlobalStepChanges


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def graph(request):
    with tf.Graph().as_default() as graph:
        v1.get_variable("global_step", [], tf.int64, v1.zeros_initializer(), trainable=False,
                        use_resource=request.param, collections=["global_step", "variables"])  # fmt: skip
        yield graph


def test_a_training_operation_does_and_an_evaluation_does_not(graph):
    weight = v1.get_variable("w", [2])
    loss = tf.reduce_sum(weight * weight)
    step = v1.train.get_global_step()
    train_op = v1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
    with tf.control_dependencies([train_op]):
        after = tf.identity(loss)
    changes = GlobalStepChanges(graph)
    assert changes.by(train_op) and changes.by([loss, {"op": after}]) and changes.by(after.name)
    assert not changes.by([loss, step, weight]) and not changes.by(loss.op) and not changes.by([])


def test_an_update_in_a_branch_is_found(graph):
    step = v1.train.get_global_step()
    v1.disable_control_flow_v2()
    try:
        moved = v1.cond(tf.constant(True), lambda: v1.assign_add(step, 1), lambda: tf.constant(0, tf.int64))
    finally:
        v1.enable_control_flow_v2()
    assert GlobalStepChanges(graph).by(moved)


def test_initialization_is_no_training(graph):
    assert not GlobalStepChanges(graph).by(v1.global_variables_initializer())


def test_a_graph_without_a_global_step_has_no_training():
    with tf.Graph().as_default() as graph:
        variable = v1.get_variable("w", [2])
        assert not GlobalStepChanges(graph).by(v1.assign_add(variable, [1.0, 1.0]))
