"""The global step where a model asks for it: in a schedule of the learning rate, and in the forward computation."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.cluster.test_modes import MODES
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long
from tests.support.models.small import Linear

STEPS, RUN = 32, 8
every_mode = pytest.mark.parametrize(
    "mode",
    [long(m) if m.get("max_steps_ahead") == 0 else m for m in MODES.values() if "backup_workers" not in m],
    ids=str,
)


class Falling(Linear):
    """Every gradient is 1, and the rate of step s is 1 / (1 + s): the values tell which steps the rates were of."""

    def forward(self, features, training):
        self.parts = [v1.get_variable(name, [4], initializer=v1.zeros_initializer()) for name in ("a", "b", "c")]
        return tf.reduce_sum(features) * 0.0

    def loss(self, outputs, labels):
        return outputs + tf.add_n([tf.reduce_sum(part) for part in self.parts])

    def optimizer(self, name, learning_rate):
        step = tf.cast(v1.train.get_or_create_global_step(), tf.float32)
        return v1.train.GradientDescentOptimizer(1.0 / (1.0 + step))


def trained(model: Linear, mode: dict, num_ps: int, workers: int, run: int, steps: int = STEPS) -> InProcessCluster:
    settings = {"batch_size": 4, "steps_per_run": str(run), **mode}
    cluster = InProcessCluster(model, num_ps, workers, partition_bytes=8, **settings)
    cluster.start()
    cluster.train(steps, run=run)
    return cluster


def sum_of_rates(steps: int) -> float:
    return sum(1 / (1 + step) for step in range(steps))


@every_mode
@pytest.mark.parametrize("num_ps, run", [(2, RUN), long(1, 1), long(1, RUN), long(2, 1), long(3, 1), long(3, RUN)])
@pytest.mark.usual(1)
def test_a_rate_that_falls_is_that_of_the_update_on_every_ps(mode: dict, num_ps: int, run: int) -> None:
    cluster = trained(Falling(), mode, num_ps, 1, run)
    for name in ("a", "b", "c"):
        np.testing.assert_allclose(cluster.values()[name], -sum_of_rates(STEPS), rtol=1e-5, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("run", [long(1), RUN])
@pytest.mark.parametrize("backup_workers", [0, long(1)])
def test_under_sync_the_rate_is_that_of_the_round_whichever_worker_completes_it(run: int, backup_workers: int) -> None:
    cluster = trained(Falling(), {"update": "sync", "backup_workers": backup_workers}, 2, 2, run)
    for name in ("a", "b", "c"):
        rates = sum_of_rates(cluster.global_step())
        np.testing.assert_allclose(cluster.values()[name], -rates, rtol=1e-5, err_msg=name)
    assert backup_workers or cluster.global_step() == STEPS


def test_under_async_the_rate_is_that_of_the_update_count_of_the_ps_whichever_worker_pushes() -> None:
    cluster = trained(Falling(), {"update": "async"}, 2, 3, 1)
    for name in ("a", "b", "c"):
        np.testing.assert_allclose(cluster.values()[name], -sum_of_rates(3 * STEPS), rtol=1e-5, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("update", [long("async"), "sync"])
def test_rates_go_on_where_the_checkpoint_was(update: str, tmp_path) -> None:
    before = InProcessCluster(Falling(), 2, 1, tmp_path, update=update, batch_size=4)
    before.start()
    before.train(10)
    before.checkpoints.save(before.sessions[0])
    after = InProcessCluster(Falling(), 3, 1, tmp_path, update=update, batch_size=4)
    assert after.start(restore=True) == 10
    after.train(10)
    for name in ("a", "b", "c"):
        np.testing.assert_allclose(after.values()[name], -sum_of_rates(20), rtol=1e-5, err_msg=name)


class Averaging(Linear):
    """AdagradDA is given the global step itself."""

    def optimizer(self, name, learning_rate):
        return v1.train.AdagradDAOptimizer(0.5, v1.train.get_global_step(), l1_regularization_strength=0.001)


class Decaying(Linear):
    """A schedule of TensorFlow's, and an optimizer with powers of its own."""

    def optimizer(self, name, learning_rate):
        rate = v1.train.exponential_decay(0.1, v1.train.get_global_step(), 3, 0.8, staircase=True)
        return v1.train.AdamOptimizer(rate)


class Kept(Linear):
    """The model makes its optimizer once, for all ps."""

    def __init__(self) -> None:
        super().__init__(count=120, width=5)
        self._kept = v1.train.AdamOptimizer(0.05)

    def optimizer(self, name, learning_rate):
        return self._kept


@every_mode
@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize("run", [long(1), RUN])
@pytest.mark.parametrize("model", [Averaging, long(Decaying), long(Kept)])
@pytest.mark.usual(1)
def test_optimizers_that_know_the_step_equal_those_of_a_plain_session(
    model: type[Linear], mode: dict, num_ps: int, run: int
) -> None:
    made = Kept() if model is Kept else model(count=120, width=5)
    settings = {"batch_size": 4, "steps_per_run": str(run), **mode}
    cluster = InProcessCluster(made, num_ps, 1, partition_bytes=8, **settings)
    cluster.start()
    initial = cluster.values()
    cluster.train(STEPS, run=run)
    plain = train_plainly(made, lambda: made.optimizer("", 0.0), initial, batches_of(made, 4, STEPS), with_step=True)
    for name in ("w", "b"):
        np.testing.assert_allclose(cluster.values()[name], plain[name], atol=1e-5, rtol=1e-5, err_msg=name)
