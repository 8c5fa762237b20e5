"""Arguments of optimizers by name, in whole clusters: they reach every ps, and a checkpoint keeps its slots."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from ps_train.config.optimizer_arguments import ADAGRAD_START
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.models.small import Linear
from tests.support.models.vocabularies import Visits

RATE, STEPS = 0.05, 6


@pytest.mark.usual(1)
@pytest.mark.parametrize("update", ["async", "sync"])
def test_an_argument_reaches_the_updates_of_every_ps(update) -> None:
    arguments = ("momentum=0.5", "use_nesterov=true")
    cluster = InProcessCluster(
        Linear(), 2, 1, batch_size=8, update=update, learning_rate=RATE, optimizer="momentum", optimizer_arg=arguments
    )
    cluster.start()
    initial = cluster.values()
    cluster.train(STEPS)
    plain = train_plainly(
        Linear(),
        lambda: v1.train.MomentumOptimizer(RATE, 0.5, use_nesterov=True),
        initial,
        batches_of(Linear(), 8, STEPS),
    )
    found = cluster.values()
    for name in ("w", "b", "w/Momentum", "b/Momentum"):
        np.testing.assert_allclose(found[name], plain[name], rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.long
def test_a_checkpoint_keeps_its_accumulators_and_new_rows_begin_as_its_rows_began(tmp_path) -> None:
    """The ids of the continued training are new: they get rows after the checkpoint is restored."""
    ids = np.repeat(np.arange(STEPS), 4).reshape(-1, 1)  # four examples a step
    settings = {"batch_size": 4, "learning_rate": RATE, "optimizer": "adagrad"}
    old = {"optimizer_arg": ("initial_accumulator_value=0.1",)}
    before = InProcessCluster(Visits(ids + 100, capacity=40), 1, 1, tmp_path, **settings, **old)
    before.start()
    before.train(STEPS)
    assert before.checkpoints is not None
    before.checkpoints.save(before.sessions[0])
    continued = []
    for given in (old, {}):
        cluster = InProcessCluster(Visits(ids, capacity=40), 1, 1, tmp_path, **settings, **given)
        cluster.start()
        start = cluster.values()["users/Adagrad"].min()
        assert start == np.float32(0.1 if given else ADAGRAD_START)
        assert cluster.start(restore=True) == STEPS
        np.testing.assert_array_equal(cluster.values()["users/Adagrad"], before.values()["users/Adagrad"])
        cluster.train(STEPS)
        continued.append(cluster.values())
    expected, found = continued
    assert (expected["users/used"][:, 0] > 0).sum() == 2 * STEPS, "the new ids have rows"
    assert found["users/Adagrad"].min() == np.float32(0.1)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
