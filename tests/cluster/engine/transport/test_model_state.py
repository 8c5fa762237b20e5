"""State that a model assigns itself: the same for any number of steps in a call, and whole in every checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables.trace import trace
from tests.support.clusters.cluster import InProcessCluster, batches_of
from tests.support.long import long
from tests.support.models.small import Linear

STEPS, BATCH, DECAY = 32, 4, 0.1


class Averaged(Linear):
    """Keeps a moving average of its features, a counter, and the largest feature, as batch norm does.

    `form`: what it puts into UPDATE_OPS.
    """

    def __init__(self, form: str = "value") -> None:
        super().__init__(count=120, width=5)
        self.form = form

    def forward(self, features, training):
        zeros = v1.zeros_initializer()
        mean = v1.get_variable("mean", [self.width], initializer=zeros, trainable=False)
        count = v1.get_variable("count", [], tf.int64, zeros, trainable=False)
        most = v1.get_variable("most", [], initializer=v1.constant_initializer(-np.inf), trainable=False)
        moved = mean.read_value()
        outputs = super().forward(features - moved, training)
        if training:
            with tf.control_dependencies([outputs]):
                batch_mean = tf.reduce_mean(features, 0)
                updates = [v1.assign_sub(mean, DECAY * (moved - batch_mean)), v1.assign_add(count, 1)]
                updates.append(v1.assign(most, tf.maximum(most, tf.reduce_max(features))))
            for update in updates:
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update.op if self.form == "op" else update)
        return outputs


def expected(batches: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
    mean = np.zeros(5)
    for features, _ in batches:
        mean -= DECAY * (mean - features.mean(0))
    most = max(features.max() for features, _ in batches)
    return {"mean": mean, "count": np.int64(len(batches)), "most": most}


def cluster_of(model: Linear, num_ps: int, workers: int, run: int, directory=None, **fields) -> InProcessCluster:
    settings = {"batch_size": BATCH, "steps_per_run": str(run), "learning_rate": 0.01, **fields}
    cluster = InProcessCluster(model, num_ps, workers, directory, partition_bytes=8, **settings)
    cluster.start()
    return cluster


def check(cluster: InProcessCluster, batches: list[tuple[np.ndarray, np.ndarray]]) -> None:
    for name, value in expected(batches).items():
        np.testing.assert_allclose(cluster.values()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "fields",
    [{"update": "async"}, long({"update": "bounded", "max_steps_ahead": 2}), {"update": "sync"}],
    ids=["async", "bounded", "sync"],
)
@pytest.mark.parametrize(
    "num_ps, run, form", [long(1, 1, "value"), (2, 8, "value"), long(2, 1, "op"), long(1, 8, "op")]
)
@pytest.mark.usual(1)
def test_it_moves_as_in_a_plain_session_for_any_number_of_steps_in_a_call(fields, num_ps, run, form) -> None:
    model = Averaged(form)
    cluster = cluster_of(model, num_ps, 1, run, **fields)
    cluster.train(STEPS, run=run)
    check(cluster, batches_of(model, BATCH, STEPS))


@pytest.mark.usual(1)
@pytest.mark.parametrize("run", [1, 4])
def test_every_batch_of_an_accumulated_push_moves_it(run: int) -> None:
    model = Averaged()
    cluster = cluster_of(model, 2, 1, run, accumulate=2)
    cluster.train(8, run=run)
    check(cluster, batches_of(model, BATCH, 16))


@pytest.mark.long
@pytest.mark.parametrize("update", [long("async"), "sync"])
def test_of_several_workers_the_first_one_moves_it_alone(update: str) -> None:
    model = Averaged()
    cluster = cluster_of(model, 2, 2, 4, update=update)
    cluster.train(STEPS, run=4)
    own = [(x[0::2], y[0::2]) for x, y in batches_of(model, 2 * BATCH, STEPS)]
    check(cluster, own)


@pytest.mark.long
def test_values_that_are_pulled_ahead_do_not_lose_a_step_of_it() -> None:
    model = Averaged()
    cluster = cluster_of(model, 1, 1, 8, prefetch_pulls=1)
    cluster.train(STEPS, run=8)
    check(cluster, batches_of(model, BATCH, STEPS))


@pytest.mark.long
@pytest.mark.parametrize("update", [long("async"), "sync"])
def test_a_checkpoint_of_a_moment_has_the_state_of_its_step(update: str, tmp_path) -> None:
    model = Averaged()
    cluster = cluster_of(model, 2, 2, 4, tmp_path, update=update, on_nan="skip")
    before = STEPS
    cluster.train(before, run=4)
    step = cluster.snapshots.save(cluster.sessions[0])
    saved = tf.train.load_checkpoint(str(tmp_path / f"model.ckpt-{step}"))
    assert step == (before if update == "sync" else 2 * before)
    assert saved.get_tensor("count") == before
    again = InProcessCluster(model, 1, 1, tmp_path, batch_size=BATCH)
    assert again.start(restore=True) == step
    again.train(3)
    assert again.values()["count"] == before + 3


class Broken(Averaged):
    """The loss of every other batch is no number."""

    def loss(self, outputs, labels):
        first = v1.get_variable("seen", [], initializer=v1.zeros_initializer(), trainable=False)
        with tf.control_dependencies([v1.assign_add(first, 1.0)]):
            number = first.read_value()
        return super().loss(outputs, labels) / tf.math.floormod(number, 2.0)


@pytest.mark.usual(1)
@pytest.mark.parametrize("update", ["async", "sync"])
def test_a_step_that_is_left_out_leaves_no_trace_in_it(update: str) -> None:
    """`seen` stands at 0 whenever a step is left out: the next one reads 1 and is made, and the one after it not."""
    cluster = cluster_of(Broken(), 1, 1, 1, update=update, on_nan="skip", max_steps=10_000)
    cluster.train(6)
    values = cluster.values()
    assert values["ps_train/skipped"] == 5 and values["count"] == 1 and values["seen"] == 1


class Picky(Averaged):
    """The loss of a batch whose labels have a sum of at least 0 is no number."""

    def loss(self, outputs, labels):
        return super().loss(outputs, labels) + tf.where(tf.reduce_sum(labels) < 0, 0.0, np.nan)


@pytest.mark.long
def test_a_step_that_the_first_worker_leaves_out_does_not_move_it_though_another_worker_makes_the_update() -> None:
    model = Picky()
    cluster = cluster_of(model, 2, 2, 1, update="sync", on_nan="skip", max_steps=10_000)
    cluster.train(STEPS)
    batches = batches_of(model, 2 * BATCH, STEPS)
    own, other = [(x[0::2], y[0::2]) for x, y in batches], [y[1::2] for _, y in batches]
    assert any(y.sum() >= 0 > more.sum() for (_, y), more in zip(own, other, strict=True))
    check(cluster, [(x, y) for x, y in own if y.sum() < 0])


class Textual(Linear):
    """State of other dtypes, assigned in a branch and in a function."""

    def forward(self, features, training):
        name = v1.get_variable("name", [2], tf.string, v1.constant_initializer("new"), trainable=False)
        flag = v1.get_variable("flag", [], tf.bool, v1.zeros_initializer(), trainable=False)
        total = v1.get_variable("total", [], tf.int32, v1.zeros_initializer(), trainable=False)

        @tf.function
        def count(by):
            total.assign_add(by)
            return tf.identity(by)

        def set_name():
            with tf.control_dependencies([name.assign(["old", "older"])]):
                return tf.constant(True)

        more = tf.cond(total.read_value() > 2, set_name, lambda: tf.constant(False))
        with tf.control_dependencies([more]), tf.control_dependencies([flag.assign(more)]):
            added = count(tf.constant(1))
        with tf.control_dependencies([added]):
            return tf.identity(super().forward(features, training))


@pytest.mark.long
@pytest.mark.parametrize("run", [long(1), 4])
@pytest.mark.parametrize("update", ["async", "sync"])
def test_it_may_be_of_any_dtype_and_be_assigned_in_branches_and_functions(run: int, update: str) -> None:
    cluster = cluster_of(Textual(count=120, width=5), 2, 1, run, update=update)
    cluster.train(8, run=run)
    values = cluster.values()
    assert values["total"] == 8 and values["flag"] and values["name"].tolist() == [b"old", b"older"]


class Assigning(Linear):
    def forward(self, features, training):
        w = v1.get_variable("w", [self.width, 1])
        with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=self.handle(w), value=w * 0.5)]):
            return tf.squeeze(features @ w, 1)

    @staticmethod
    def handle(variable):
        return variable.handle


def test_a_variable_that_is_trained_cannot_be_assigned_too() -> None:
    model = Assigning()
    with pytest.raises(ModelError, match=r"variable w .*trainable=False|variable w has no handle"):
        trace(model, DataSource(lambda: model.data("train", "")), 4)
