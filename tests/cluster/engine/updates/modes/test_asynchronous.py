"""An asynchronous worker computes what a plain session computes."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.modeling.model import make_optimizer
from ps_train.models.digits import Digits
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long
from tests.support.models.small import Linear

OPTIMIZERS = ["sgd", "momentum", "adam", "adagrad"]


RATE = 0.05


def differences(distributed: dict[str, np.ndarray], plain: dict[str, np.ndarray]) -> dict[str, float]:
    """Largest difference of each variable, relative where its values are above 1 (Adagrad's accumulators are)."""
    scale = {name: max(1.0, float(np.abs(value).max())) for name, value in plain.items()}
    return {name: float(np.abs(distributed[name] - value).max()) / scale[name] for name, value in plain.items()}


@pytest.mark.parametrize("num_ps", [long(1), 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.usual(1)
def test_one_asynchronous_worker_equals_a_plain_session(optimizer: str, num_ps: int) -> None:
    model = Digits(hidden=16)
    cluster = InProcessCluster(model, num_ps, 1, optimizer=optimizer, learning_rate=RATE, batch_size=16)
    cluster.start()
    initial = cluster.values()
    cluster.train(30)
    plain = train_plainly(model, lambda: make_optimizer(optimizer, RATE), initial, batches_of(model, 16, 30))
    found = differences(cluster.values(), plain)
    assert "hidden1/weights" in found and max(found.values()) < 1e-6, found
    assert cluster.global_step() == 30
    assert num_ps == 1 or any(piece.count > 1 for piece in cluster.plan.slices), "a variable must be in slices"


def test_the_step_that_is_fetched_is_the_one_after_the_update() -> None:
    cluster = InProcessCluster(Linear(), 1, 1, batch_size=4)
    cluster.start()
    step, session = cluster.steps[0], cluster.sessions[0]
    for number in range(1, 21):
        assert session.run({"train": step.ops.train, "step": step.ops.step_after})["step"] == number
