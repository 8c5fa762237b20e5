"""Open vocabularies are trained as a dictionary of rows would be, an id after the other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.cluster import InProcessCluster, batches_of
from tests.support.vocabularies import Replay, Visits, book

RATE = 0.05
OPTIMIZERS = ["sgd", "momentum", "adagrad", "ftrl", "lazy_adam", "rowwise_adagrad"]


def started(model: Visits, num_ps: int = 1, workers: int = 1, directory=None, **fields) -> InProcessCluster:
    settings = {"learning_rate": RATE, "batch_size": 12 // workers, "optimizer": "sgd", **fields}
    cluster = InProcessCluster(model, num_ps, workers, directory, **settings)
    cluster.start()
    return cluster


def passing(count: int = 240, seed: int = 3) -> np.ndarray:
    """Two ids an example: frequent ones, rare ones, and ones that are frequent for a while."""
    random = np.random.default_rng(seed)
    ids = np.stack([random.geometric(0.3, count), np.arange(count) // 30 * 100 + random.integers(0, 5, count)], 1)
    return (ids - 100).astype(np.int64)


def replayed(model: Visits, steps: int, optimizer: str = "sgd") -> Replay:
    declared = {name: model.declared[name] for name in ("admit_after", "expire_steps") if name in model.declared}
    replay = Replay(optimizer, RATE, model.declared["capacity"], **declared)
    replay.default[:] = model.declared["initializer"]
    for ids, labels in batches_of(model, 12, steps):
        replay.step(ids, labels)
    return replay


def assert_same(values: dict, replay: Replay, tolerance: float = 1e-6) -> None:
    rows = book(values)
    assert rows.keys() == replay.known.keys()
    for name, entry in replay.known.items():
        row = rows[name]
        assert values["users/used"][row].tolist() == [entry.uses, entry.last], name
        np.testing.assert_allclose(
            values["users"][row], replay.table[entry.state], rtol=tolerance, atol=tolerance, err_msg=str(name)
        )
    np.testing.assert_allclose(values["users/default"], replay.default, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    "declared",
    [
        {"capacity": 100},
        {"capacity": 20},
        {"capacity": 20, "admit_after": 3},
        {"capacity": 100, "expire_steps": 2},
        {"capacity": 20, "admit_after": 2, "expire_steps": 3},
    ],
    ids=str,
)
def test_every_optimizer_does_to_ids_that_come_and_go_what_numpy_does(optimizer: str, declared: dict) -> None:
    model = Visits(passing(), **declared)
    cluster = started(model, optimizer=optimizer)
    cluster.train(20)
    replay = replayed(model, 20, optimizer)
    assert_same(cluster.values(), replay)
    assert (replay.evicted > 0) == (declared["capacity"] == 20), "rows must be given again where there are few"
    assert (replay.expired > 0) == ("expire_steps" in declared), "an id must come back after it has expired"
