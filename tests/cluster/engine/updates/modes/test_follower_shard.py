"""A step that ends half-way, because its worker dies or loses its session, stops no other replica."""

from __future__ import annotations

import contextlib
import random
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.cluster.engine.updates.modes.test_sync_rounds import after_update, arrived, made, step
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear


def begin_step_on_first_ps(cluster, index):
    """Makes the part of a step that is on ps 0; it waits there for the end of the round."""
    session, push = cluster.sessions[index], cluster.steps[index].ops.train[0]

    def run():
        with contextlib.suppress(tf.errors.OpError):  # the session may be closed meanwhile
            session.run(push)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def rounds(cluster):
    return [int(cluster.read(f"ps_train/round_{ps}")) for ps in range(2)]


@pytest.mark.long
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_push_that_reached_the_first_ps_alone_is_not_awaited_by_the_other(is_last: bool, comes_back: bool) -> None:
    cluster, model = made(2)
    w = cluster.values()["w"]

    def others():
        in_parallel([lambda: step(cluster, 0), lambda: step(cluster, 2)])

    with_others = threading.Thread(target=others, daemon=True)
    if is_last:
        with_others.start()
        eventually(lambda: arrived(cluster) == 2, 20, "the pushes of the others")
        half = begin_step_on_first_ps(cluster, 1)
    else:
        half = begin_step_on_first_ps(cluster, 1)
        eventually(lambda: arrived(cluster) == 1, 20, "the push on the first ps")
        with_others.start()
    eventually(lambda: cluster.global_step() == 1, 20, "the end of the round on the first ps")
    half.join(20)
    assert rounds(cluster) == [1, 0] and with_others.is_alive()

    if comes_back:
        step(cluster, 1)  # of values from two rounds, so it is dropped
        assert cluster.values()["ps_train/dropped"] == 1
    else:
        cluster.dismiss(1)
    with_others.join(20)
    assert not with_others.is_alive()
    assert rounds(cluster) == [1, 1]
    found = cluster.values()["w"]
    follows = np.concatenate([np.full(piece.size, piece.ps == 1) for piece in cluster.plan.slices_of("w")])
    everyone, two = after_update(w, model, 0, 0, 1, 2), after_update(w, model, 0, 0, 2)
    expected = np.where(follows[:, None], two, everyone)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    in_parallel([lambda index=index: step(cluster, index) for index in ([0, 1, 2] if comes_back else [0, 2])])
    assert rounds(cluster) == [2, 2]


@pytest.mark.long
def test_a_push_that_is_made_again_in_the_same_round_reaches_the_other_ps() -> None:
    cluster, _ = made(2)
    cluster.open_again(1)
    session = cluster.sessions[1]
    half = begin_step_on_first_ps(cluster, 1)
    eventually(lambda: arrived(cluster) == 1, 20, "the push on the first ps")
    session.close()
    half.join(20)
    assert not half.is_alive()
    cluster.open_again(1)
    in_parallel([lambda index=index: step(cluster, index) for index in range(3)])
    assert rounds(cluster) == [1, 1]
    assert cluster.values()["ps_train/examples"] == 12


@pytest.mark.parametrize(("update", "num_ps"), [("sync", 2), ("bounded", 2), ("sync", 1), ("bounded", 1)])
@pytest.mark.long
@pytest.mark.timeout(300)
def test_steps_that_end_anywhere_stop_nobody(update: str, num_ps: int) -> None:
    """A worker loses its session at any moment of its steps, 100 times."""
    moments = random.Random(7)
    cluster = InProcessCluster(
        Linear(64, 50), num_ps, 3, partition_bytes=64, update=update, batch_size=8, max_steps=10**8,
        learning_rate=1e-6, optimizer="adam",
    )  # fmt: skip
    cluster.start()
    stop, of_input, batches = threading.Event(), cluster.sessions[1], cluster.steps[1].worker.batches

    def work(index):
        while not stop.is_set():
            step(cluster, index)

    def train(made):
        with contextlib.suppress(tf.errors.OpError, RuntimeError):  # it is closed, or the input was cancelled
            while True:
                step(cluster, 1)
                made.append(True)

    others = [threading.Thread(target=work, args=[index], daemon=True) for index in (0, 2)]
    for thread in others:
        thread.start()
    for cut in range(100):
        of_input.run(batches.initializer, batches.feeds(seed=1))
        cluster.open_again(1)
        made_steps: list[bool] = []
        thread = threading.Thread(target=train, args=[made_steps], daemon=True)
        thread.start()
        eventually(lambda made=made_steps: len(made) >= 2, 30, f"two steps after {cut} lost sessions")
        time.sleep(0.03 * moments.random())
        cluster.sessions[1].close()
        thread.join(30)
        assert not thread.is_alive()
    stop.set()

    def have_ended() -> bool:
        for index in range(3):  # nobody waits for one that has ended
            cluster.dismiss(index)
        return not any(thread.is_alive() for thread in others)

    eventually(have_ended, 30, "the end of the others")
