"""A replica in no host list joins: no other waits for it before, and it is treated like the others after."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.engine.updates.modes.quorum import JOINING, LEFT, MEMBER
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear

RATE, BATCH, DECLARED = 0.05, 4, 2
JOINER = DECLARED


def made(update: str, num_ps: int = 1, **fields: int) -> InProcessCluster:
    cluster = InProcessCluster(
        Linear(count=120, width=3),
        num_ps,
        DECLARED + 1,
        declared=DECLARED,
        update=update,
        optimizer="sgd",
        learning_rate=RATE,
        batch_size=BATCH,
        max_workers=5,
        partition_bytes=4,
        **fields,
    )
    cluster.start()
    return cluster


def step(cluster: InProcessCluster, index: int) -> None:
    cluster.sessions[index].run(cluster.steps[index].ops.train)


def rows_of(worker: int, number: int) -> np.ndarray:
    """The examples of a batch: every second one for those that were declared, all for who joins."""
    rows = np.arange(number * BATCH, (number + 1) * BATCH)
    return rows if worker == JOINER else rows * DECLARED + worker


def after_update(values: dict[str, np.ndarray], batches: list[tuple[int, int]]) -> dict[str, np.ndarray]:
    """What SGD makes of the values with the mean gradient of those (worker, number of its batch)."""
    data = Linear(count=120, width=3).data("train", "")
    rows = np.concatenate([rows_of(*batch) for batch in batches])
    x, y = data.features[rows], data.labels[rows]
    error = 2 * (x @ values["w"][:, 0] + values["b"] - y) / len(y)
    return {"w": values["w"] - RATE * (x.T @ error)[:, None], "b": values["b"] - RATE * error.sum()}


def standing(cluster: InProcessCluster) -> list[int]:
    return cluster.read("ps_train/round_state_0")[0].tolist()


@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_a_round_is_of_the_declared_workers_until_another_joins_and_then_of_all(num_ps: int) -> None:
    cluster = made("sync", num_ps)
    expected = {name: cluster.values()[name] for name in ("w", "b")}
    assert standing(cluster) == [MEMBER, MEMBER, LEFT, LEFT, LEFT]
    in_parallel([lambda: step(cluster, 0), lambda: step(cluster, 1)])
    expected = after_update(expected, [(0, 0), (1, 0)])

    def the_others() -> None:
        eventually(lambda: standing(cluster)[JOINER] == JOINING, 20, "somebody's coming")
        in_parallel([lambda: step(cluster, 0), lambda: step(cluster, 1)])

    in_parallel([lambda: step(cluster, JOINER), the_others])  # his first push is of a round that he is no member of
    expected = after_update(expected, [(0, 1), (1, 1)])
    in_parallel([lambda index=index: step(cluster, index) for index in range(3)])
    expected = after_update(expected, [(0, 2), (1, 2), (JOINER, 1)])
    for name, value in expected.items():
        np.testing.assert_allclose(cluster.values()[name], value, atol=1e-6)
    cluster.dismiss(JOINER)
    in_parallel([lambda: step(cluster, 0), lambda: step(cluster, 1)])
    assert cluster.global_step() == 4 and standing(cluster)[JOINER] == LEFT


def test_a_replica_that_has_not_joined_is_not_behind_and_one_that_joins_begins_beside_the_slowest() -> None:
    cluster = made("bounded", max_steps_ahead=1)
    for _ in range(5):
        in_parallel([lambda: step(cluster, 0), lambda: step(cluster, 1)])
    step(cluster, JOINER)
    live, clocks = cluster.read("ps_train/clocks")
    assert live.tolist() == [1, 1, 1, 0, 0] and clocks[JOINER] == 5
    in_parallel([lambda index=index: step(cluster, index) for index in (0, 1)])
    assert cluster.global_step() == 13


def test_without_waiting_every_push_of_a_joined_replica_is_an_update_like_any_other() -> None:
    cluster = made("async")
    expected = {name: cluster.values()[name] for name in ("w", "b")}
    for worker, number in [(0, 0), (JOINER, 0), (1, 0), (JOINER, 1)]:
        step(cluster, worker)
        expected = after_update(expected, [(worker, number)])
    for name, value in expected.items():
        np.testing.assert_allclose(cluster.values()[name], value, atol=1e-6)
    assert cluster.read("ps_train/staleness")[:, 0].tolist() == [1, 1, 2, 0, 0]
