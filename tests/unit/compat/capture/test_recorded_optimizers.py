"""What a model_fn does with optimizers is recorded; without `carries_out` it is not done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.estimator_program import CaptureError, SyncReplicas
from ps_train.compat.capture.recorded_optimizers import OptimizerRecorder


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def variable(name: str, value: float = 1.0) -> Any:
    return v1.get_variable(name, initializer=value, use_resource=True)


def new_recorder(carries_out: bool = False) -> OptimizerRecorder:
    return OptimizerRecorder(lambda found: str(found.op.name), lambda found: found, carries_out)


def value_after(train_op: Any, of: Any) -> float:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        return float(session.run(of))


def test_minimize_is_recorded_and_not_carried_out() -> None:
    weight, recorder = variable("w"), new_recorder()
    optimizer = v1.train.GradientDescentOptimizer(0.25)
    with recorder.recording():
        train_op = optimizer.minimize(weight * weight)
    (call,) = recorder.applied
    assert call.optimizer is optimizer and list(call.gradients) == ["w"]
    assert call.hyperparameters["_learning_rate"] == 0.25
    assert value_after(train_op, weight) == 1.0
    with v1.Session() as session:
        session.run(weight.initializer)
        assert session.run(call.gradients["w"]) == 2.0


def test_what_is_carried_out_too_makes_the_variables_of_the_optimizer() -> None:
    weight, recorder = variable("w"), new_recorder(carries_out=True)
    with recorder.recording():
        train_op = v1.train.MomentumOptimizer(0.25, 0.9).minimize(weight * weight)
    assert [made.variable.op.name for made in recorder.applied[0].made] == ["w/Momentum"]
    assert value_after(train_op, weight) == 0.5


def test_changed_gradients_are_those_that_are_recorded() -> None:
    weight, recorder = variable("w"), new_recorder()
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    with recorder.recording():
        pairs = optimizer.compute_gradients(weight * 3.0)
        optimizer.apply_gradients([(gradient * 7.0, target) for gradient, target in pairs])
    with v1.Session() as session:
        assert session.run(recorder.applied[0].gradients["w"]) == 21.0


def test_a_gradient_that_is_none_is_left_out() -> None:
    weight, other, recorder = variable("w"), variable("unused"), new_recorder()
    with recorder.recording():
        v1.train.GradientDescentOptimizer(1.0).minimize(weight * 3.0, var_list=[weight, other])
    assert list(recorder.applied[0].gradients) == ["w"]


def test_gradients_of_no_variable_are_refused_as_tensorflow_refuses_them() -> None:
    weight = variable("w")
    with new_recorder().recording():
        with pytest.raises(ValueError, match="No gradients provided"):
            v1.train.GradientDescentOptimizer(1.0).apply_gradients([(None, weight)])
        with pytest.raises(ValueError, match="No variables to optimize"):
            v1.train.GradientDescentOptimizer(1.0).compute_gradients(weight * 3.0, var_list=[])


def test_a_variable_is_updated_once_in_a_step() -> None:
    weight = variable("w")
    with new_recorder().recording():
        v1.train.GradientDescentOptimizer(1.0).minimize(weight * 3.0)
        with pytest.raises(CaptureError, match="variable w is updated twice"):
            v1.train.AdamOptimizer().minimize(weight * 2.0)


def test_an_optimizer_with_an_update_of_its_own_is_refused() -> None:
    class Own(v1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
            return super().apply_gradients(grads_and_vars, global_step, name)

    weight = variable("w")
    with new_recorder().recording(), pytest.raises(CaptureError, match="Own has an apply_gradients of its own"):
        Own(1.0).minimize(weight * 3.0)


def test_a_sync_replicas_optimizer_gives_its_counts_and_the_optimizer_inside() -> None:
    weight, recorder = variable("w"), new_recorder()
    inside = v1.train.GradientDescentOptimizer(1.0)
    with recorder.recording():
        outside = v1.train.SyncReplicasOptimizer(inside, replicas_to_aggregate=3, total_num_replicas=4)
        outside.minimize(weight * 3.0, global_step=v1.train.get_or_create_global_step())
        hook = outside.make_session_run_hook(is_chief=True)
    assert recorder.sync == SyncReplicas(to_aggregate=3, total=4)
    assert recorder.applied[0].optimizer is inside
    assert type(hook) is v1.train.SessionRunHook


@pytest.mark.parametrize("kind", [v1.train.Optimizer, v1.train.SyncReplicasOptimizer], ids=["any", "sync"])
def test_afterwards_the_methods_are_tensorflows_own(kind: Any) -> None:
    before = dict(vars(kind))
    with pytest.raises(RuntimeError, match="of the model"), new_recorder().recording():
        assert vars(kind) != before
        raise RuntimeError("of the model")
    assert vars(kind) == before
