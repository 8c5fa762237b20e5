"""Training in one plain session does what the stock Estimator does: steps, checkpoints, events, hooks, warm starts."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.train.sync_replicas import SyncReplicasOptimizer
from tests.support.compat.estimators import (
    BATCH,
    Recorder,
    X,
    Y,
    estimator,
    events_in,
    forever,
    model_fn,
    once,
    spec_of,
    steps_in,
    weights_after,
    weights_of,
    with_fields,
)


def step_of(trained: Estimator) -> int:
    return int(trained.get_variable_value("global_step"))


def test_the_weights_are_those_of_numpy(tmp_path):
    assert weights_of(estimator(tmp_path).train(forever, steps=7)) == pytest.approx(weights_after(7), rel=1e-5)


def test_point_56_steps_add_up_and_max_steps_do_not(tmp_path):
    trained = estimator(tmp_path / "steps")
    trained.train(forever, steps=5).train(forever, steps=5)
    assert step_of(trained) == 10
    trained = estimator(tmp_path / "max").train(forever, max_steps=5)
    calls: list[str] = []
    trained.train(forever, max_steps=5, hooks=[Recorder(calls)])
    assert step_of(trained) == 5 and calls == []
    assert step_of(trained.train(forever, max_steps=8)) == 8


def test_point_56_wrong_steps_are_refused(tmp_path):
    made = estimator(tmp_path)
    with pytest.raises(ValueError, match="steps=3 and max_steps=4 are both given"):
        made.train(forever, steps=3, max_steps=4)
    for wrong in ({"steps": 0}, {"steps": -1}, {"max_steps": 0}, {"max_steps": -1}):
        with pytest.raises(ValueError, match="is not valid"):
            made.train(forever, **wrong)


def test_point_57_checkpoints_at_the_first_step_at_intervals_and_at_the_end(tmp_path):
    estimator(tmp_path, save_checkpoints_steps=3).train(forever, steps=8)
    assert steps_in(tmp_path) == [0, 3, 6, 8]


def test_point_57_checkpoints_by_time_and_none_at_all(tmp_path):
    estimator(tmp_path / "secs", save_checkpoints_secs=1000).train(forever, steps=8)
    assert steps_in(tmp_path / "secs") == [0, 8]
    trained = estimator(tmp_path / "none", save_checkpoints_steps=None, save_checkpoints_secs=None)
    assert trained.train(forever, steps=8).latest_checkpoint() is None


def test_point_57_only_the_newest_are_kept(tmp_path):
    estimator(tmp_path, save_checkpoints_steps=1, keep_checkpoint_max=2).train(forever, steps=6)
    assert steps_in(tmp_path) == [5, 6] and len(list(tmp_path.glob("model.ckpt-*.index"))) == 2


def test_point_57_all_are_kept_if_the_number_is_0(tmp_path):
    estimator(tmp_path, save_checkpoints_steps=1, keep_checkpoint_max=0).train(forever, steps=7)
    assert len(list(tmp_path.glob("model.ckpt-*.index"))) == 8


def test_point_58_a_directory_can_be_copied_and_continued(tmp_path):
    estimator(tmp_path / "a").train(forever, steps=4)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    copied = estimator(tmp_path / "b")
    assert copied.latest_checkpoint() == str(tmp_path / "b" / "model.ckpt-4")
    assert step_of(copied.train(forever, steps=2)) == 6


def test_point_59_events_have_loss_speed_and_summaries_of_the_user(tmp_path):
    def function(features, labels, mode):
        v1.summary.scalar("own", v1.train.get_global_step())
        return spec_of(mode, features, labels)

    estimator(tmp_path, function, save_summary_steps=4, log_step_count_steps=3).train(forever, steps=10)
    events = events_in(tmp_path)
    assert events["loss"][0] == (1, pytest.approx(np.mean(Y[:BATCH] ** 2), rel=1e-5))
    steps = [step for step, _ in events["loss"]]
    assert steps == [step for step, _ in events["own"]] and steps[0] == 1 and len(steps) == 3
    assert {*np.diff(steps)} <= {3, 4}, "TensorFlow's hook reads the step beside its update, and may count it early"
    assert "global_step/sec" in events


def test_point_59_summaries_can_be_left_out(tmp_path):
    estimator(tmp_path, save_summary_steps=0, log_step_count_steps=None).train(forever, steps=5)
    assert events_in(tmp_path).keys() & {"loss", "global_step/sec"} == set()


def test_point_59_a_loss_summary_of_the_user_is_the_only_one(tmp_path):
    def function(features, labels, mode):
        spec = spec_of(mode, features, labels)
        v1.summary.scalar("loss", spec.loss * 0)
        return spec

    estimator(tmp_path, function, save_summary_steps=1).train(forever, steps=1)
    assert events_in(tmp_path)["loss"] == [(1, 0.0)]


def test_point_60_hooks_run_in_order(tmp_path):
    calls: list[str] = []
    function = with_fields(
        training_hooks=lambda: [Recorder(calls, "all ")],
        training_chief_hooks=lambda: [Recorder(calls, "chief ")],
        evaluation_hooks=lambda: [Recorder(calls, "evaluation ")],
    )
    estimator(tmp_path, function).train(forever, steps=2, hooks=[Recorder(calls, "call ")])
    phases = ["begin", "after_create_session", "before_run", "after_run", "before_run", "after_run", "end"]
    assert calls == [f"{name} {phase}" for phase in phases for name in ("chief", "call", "all")]


class Listener(v1.train.CheckpointSaverListener):
    """A listener that writes what it hears, and can stop the training."""

    def __init__(self, stop_at: int = -1) -> None:
        self.heard: list[tuple[str, int]] = []
        self.stop_at = stop_at

    def before_save(self, session, step):
        self.heard.append(("before", int(step)))

    def after_save(self, session, step):
        self.heard.append(("after", int(step)))
        return int(step) == self.stop_at


def test_point_61_listeners_hear_every_save(tmp_path):
    listener = Listener()
    estimator(tmp_path, save_checkpoints_steps=3).train(forever, steps=4, saving_listeners=[listener])
    assert listener.heard == [(name, step) for step in (0, 3, 4) for name in ("before", "after")]


def test_point_61_a_listener_can_stop_the_training(tmp_path):
    trained = estimator(tmp_path, save_checkpoints_steps=3)
    trained.train(forever, steps=40, saving_listeners=[Listener(stop_at=6)])
    assert step_of(trained) == 6


def test_point_61_without_saves_listeners_are_refused(tmp_path):
    made = estimator(tmp_path, save_checkpoints_secs=None, save_checkpoints_steps=None)
    with pytest.raises(ValueError, match="saving_listeners need checkpoints, and none are saved"):
        made.train(forever, steps=1, saving_listeners=[Listener()])


def test_point_61_a_saver_hook_of_the_user_replaces_the_default_one(tmp_path):
    listener, own = Listener(), tmp_path / "own"
    hook = v1.train.CheckpointSaverHook(str(own), save_steps=2)
    estimator(tmp_path / "m").train(forever, steps=4, hooks=[hook], saving_listeners=[listener])
    assert steps_in(own) == [0, 2, 4] and tf.train.latest_checkpoint(str(tmp_path / "m")) is None
    assert [step for name, step in listener.heard if name == "after"] == [0, 2, 4]


def test_point_62_the_init_fn_runs_once_and_only_without_a_checkpoint(tmp_path):
    calls = []

    def function(features, labels, mode):
        spec = spec_of(mode, features, labels)
        assign = v1.global_variables()[1].assign([[1.0], [2.0]])

        def init_fn(scaffold, session):
            calls.append(session.run(v1.train.get_global_step()))
            session.run(assign)

        return spec._replace(scaffold=v1.train.Scaffold(init_fn=init_fn))

    trained = estimator(tmp_path, function).train(forever, steps=1)
    assert calls == [0] and weights_of(trained) == pytest.approx([1, 2], abs=1e-6)
    trained.train(forever, steps=1)
    assert calls == [0]


def test_point_62_local_init_op_and_saver_of_the_user_are_used(tmp_path):
    seen = []

    def function(features, labels, mode):
        local = v1.get_variable("local", [], initializer=v1.zeros_initializer(), collections=["own"], use_resource=True)
        spec = spec_of(mode, features, labels)
        saver = v1.train.Saver(v1.global_variables(), max_to_keep=1)
        init = tf.group(v1.train.Scaffold.default_local_init_op(), local.assign(4.0))

        class Look(v1.train.SessionRunHook):
            def after_create_session(self, session, coord):
                seen.append(session.run(local))

        return spec._replace(scaffold=v1.train.Scaffold(local_init_op=init, saver=saver), training_hooks=[Look()])

    estimator(tmp_path, function, save_checkpoints_steps=1).train(forever, steps=3)
    assert seen == [4.0] and steps_in(tmp_path) == [3]


def test_point_63_a_loss_that_is_not_a_number_ends_training(tmp_path):
    def nan(features, labels, mode):
        return spec_of(mode, features, labels, loss=tf.constant(float("nan")))

    with pytest.raises(v1.train.NanLossDuringTrainingError):
        estimator(tmp_path, nan).train(forever, steps=3)


def test_point_64_training_starts_from_the_values_of_another_model(tmp_path):
    estimator(tmp_path / "old").train(forever, steps=5)
    config = RunConfig(engine="tensorflow", save_checkpoints_steps=10)
    new = Estimator(model_fn, str(tmp_path / "new"), config, warm_start_from=str(tmp_path / "old"))
    new.train(lambda: forever().skip(5), steps=2)
    assert step_of(new) == 2 and weights_of(new) == pytest.approx(weights_after(7), rel=1e-4)
    new.train(lambda: forever().skip(7), steps=1)  # from its own checkpoint now
    assert step_of(new) == 3 and weights_of(new) == pytest.approx(weights_after(8), rel=1e-4)


def test_point_64_init_from_checkpoint_works(tmp_path):
    estimator(tmp_path / "old").train(forever, steps=5)

    def function(features, labels, mode):
        spec = spec_of(mode, features, labels)
        v1.train.init_from_checkpoint(str(tmp_path / "old"), {"w": "w"})
        return spec

    new = estimator(tmp_path / "new", function).train(lambda: forever().skip(5), steps=1)
    assert weights_of(new) == pytest.approx(weights_after(6), rel=1e-4)


def test_point_65_training_ends_with_its_input(tmp_path):
    trained = estimator(tmp_path).train(once)
    assert step_of(trained) == len(X) // BATCH == tf.train.load_variable(str(tmp_path), "global_step")


def test_point_65_an_empty_input_is_a_warning(tmp_path, caplog):
    estimator(tmp_path).train(lambda: once().take(0))
    assert "training made no step: the input is empty" in caplog.text


def test_point_67_update_ops_move_averages_in_training_only(tmp_path):
    def function(features, labels, mode):
        mean = v1.get_variable("mean", [2], trainable=False, initializer=v1.zeros_initializer())
        update = mean.assign(tf.reduce_mean(features["x"], 0), read_value=False)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        if mode != "train":
            return spec_of(mode, features, labels)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            return spec_of(mode, features, labels)

    trained = estimator(tmp_path, function).train(forever, steps=3)
    expected = X[2 * BATCH : 3 * BATCH].mean(0)
    assert trained.get_variable_value("mean") == pytest.approx(expected, rel=1e-5)
    trained.evaluate(once)
    assert trained.get_variable_value("mean") == pytest.approx(expected, rel=1e-5)


def test_the_seed_decides_the_initial_values(tmp_path):
    def function(features, labels, mode):
        weights = v1.get_variable("w", [2, 1])
        loss = tf.reduce_mean((tf.matmul(features["x"], weights)[:, 0] - labels) ** 2)
        return EstimatorSpec(mode, loss=loss, train_op=v1.train.get_global_step().assign_add(1))

    weights = [
        weights_of(estimator(tmp_path / str(i), function, tf_random_seed=seed).train(forever, steps=1)).tolist()
        for i, seed in enumerate([1, 1, 2])
    ]
    assert weights[0] == weights[1] != weights[2]


def test_a_loss_over_all_pairs_of_a_batch_is_refused_before_any_step(tmp_path):
    def crossing(features, labels, mode):
        labels = features.pop("y")  # the batch is named as it came
        return spec_of(mode, features, labels[:, None])

    def with_labels():
        return forever().map(lambda features, labels: {**features, "y": labels})

    with pytest.raises(ModelError, match=r"the loss combines \[batch\] with feature y \[batch, 1\].*estimators.py"):
        estimator(tmp_path, crossing).train(with_labels, steps=1)
    assert not list(tmp_path.glob("model.ckpt*"))


def test_checkpoints_after_a_resume_are_at_multiples_and_the_last_one_is_saved_once(tmp_path):
    saved = []

    class Listener(v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append(int(global_step_value))

    for last in (25, 43, 60):
        estimator(tmp_path).train(forever, max_steps=last, saving_listeners=[Listener()])
    assert saved == [0, 10, 20, 25, 25, 30, 40, 43, 43, 50, 60]


@pytest.mark.parametrize("kind", [v1.train.SyncReplicasOptimizer, SyncReplicasOptimizer], ids=["stock", "ours"])
def test_synchronous_rounds_are_exact_means_and_end_quietly(tmp_path, monkeypatch, kind):
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def model_fn(features, labels, mode):
        table = v1.get_variable("table", [3, 1], initializer=v1.zeros_initializer())
        loss = tf.reduce_sum(tf.gather(table, features) * labels)
        optimizer = kind(v1.train.GradientDescentOptimizer(1.0), 2, 2)
        hooks = [optimizer.make_session_run_hook(True)]
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    def input_fn():
        rows, weights = np.array([[2, 0], [1, 1]]), np.array([[[3.0], [5.0]], [[7.0], [1.0]]], np.float32)
        return tf.data.Dataset.from_tensor_slices((rows, weights)).repeat()

    config = RunConfig(str(tmp_path), engine="tensorflow")
    trained = Estimator(model_fn, config=config).train(input_fn, max_steps=4)
    assert step_of(trained) == 4
    np.testing.assert_allclose(trained.get_variable_value("table")[:, 0], [-4 * 5 / 2, -4 * 8 / 2, -4 * 3 / 2])
    assert not raised
