"""Every shape of model in `models/zoo` trains as in one plain session, with any number of steps in a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.clusters.loops import pace_for, run_worker
from tests.support.long import long
from tests.support.models.zoo import ZOO
from tests.support.models.zoo.random import RANDOM, SIZE, Random
from tests.support.models.zoo.shape import RATE, Shape

BATCH, STEPS, RUN = 4, 18, 8
ALWAYS = {"batch_norm", "conditions", "tied"}
"""Shapes of the usual suite: state, control flow, and rows and whole values of one variable."""

every_shape = pytest.mark.parametrize("shape", [s if s.name in ALWAYS else long(s) for s in ZOO.values()], ids=str)


@contextlib.contextmanager
def control_flow_of(shape: Shape) -> Iterator[None]:
    """Of its version, as long as the body builds graphs."""
    was_new = v1.control_flow_v2_enabled()
    v1.enable_control_flow_v2() if shape.control_flow == 2 else v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2() if was_new else v1.disable_control_flow_v2()


def cluster_of(shape: Shape, num_ps: int, workers: int, **fields) -> InProcessCluster:
    cluster = InProcessCluster(shape, num_ps, workers, partition_bytes=64, batch_size=BATCH, **fields)
    cluster.start()
    cluster.initial = cluster.values()
    return cluster


def check(shape: Shape, cluster: InProcessCluster, batches: list) -> None:
    """The values of all variables, those of optimizers among them, are a plain session's after these batches."""
    rate = cluster.job.learning_rate or RATE
    plain = train_plainly(shape.plain(), lambda: shape.optimizer("", rate), cluster.initial, batches, with_step=True)
    found = {name: np.asarray(value) for name, value in cluster.values().items()}
    plain = {name: np.asarray(value) for name, value in plain.items()}
    assert {piece.variable for piece in cluster.plan.slices} <= plain.keys()
    for name in sorted(plain.keys() & found.keys()):
        assert found[name].dtype == plain[name].dtype
        if found[name].dtype.kind not in "fVc":
            np.testing.assert_array_equal(found[name], plain[name], err_msg=name)
            continue
        close = max(shape.close, 4e-2 if found[name].dtype.itemsize == 2 else 0.0)
        wide = np.complex128 if found[name].dtype.kind == "c" else np.float64
        values = [some[name].astype(wide) for some in (found, plain)]
        largest = float(np.abs(values[1]).max(initial=1))  # sums round as their largest parts do
        np.testing.assert_allclose(*values, atol=close * largest, rtol=close, err_msg=name)
    assert any(not np.array_equal(plain[name], cluster.initial[name]) for name in plain if name != "global_step")
    assert cluster.global_step() == len(batches)


def train_with_one_worker(shape: Shape, num_ps: int, lengths: list[int]) -> None:
    with control_flow_of(shape):
        cluster = cluster_of(shape, num_ps, 1, steps_per_run=str(max(lengths)))
        for length in lengths:
            cluster.train(length, run=length)
        check(shape, cluster, batches_of(shape, BATCH, sum(lengths)))


@every_shape
@pytest.mark.parametrize("num_ps", [2, long(1)])
def test_one_worker_makes_the_steps_of_a_plain_session(shape: Shape, num_ps: int) -> None:
    """Alone and eight in a run, one kind after the other."""
    train_with_one_worker(shape, num_ps, [RUN, 1, RUN, 1])


IN_ROUNDS = [shape for shape in ZOO.values() if shape.name != "of_all_kinds"]
"""Values of 16 bits, which that one has, are rounded once more by a push of their differences."""


@pytest.mark.parametrize("shape", [s if s.name == "recomputed" else long(s) for s in IN_ROUNDS], ids=str)
def test_rounds_of_one_worker_make_the_steps_of_a_plain_session(shape: Shape) -> None:
    """In calls of several steps, then in calls that make a whole round."""
    with control_flow_of(shape):
        cluster = cluster_of(shape, 2, 1, update="async", local_steps=3)
        cluster.rounds([3, 2])
        cluster.rounds([3, 2], joined=1)
        check(shape, cluster, batches_of(shape, BATCH, 10))


@pytest.mark.long
@pytest.mark.parametrize("shape", [s for s in ZOO.values() if s.name in ALWAYS], ids=str)
def test_the_loop_makes_the_steps_of_a_plain_session(shape: Shape) -> None:
    """At a rate at which none of the models diverges in so many steps."""
    with control_flow_of(shape):
        fields = {"steps_per_run": "auto", "max_steps": 5 * STEPS, "learning_rate": RATE / 100}
        cluster = cluster_of(shape, 2, 1, **fields)
        run_worker(cluster, 0, pace_for(cluster), lambda: False)
        check(shape, cluster, batches_of(shape, BATCH, 5 * STEPS))


@pytest.mark.parametrize("shape", [s if s.name == "tied" else long(s) for s in ZOO.values() if s.joined], ids=str)
def test_two_synchronous_workers_make_the_steps_of_their_joined_batches(shape: Shape) -> None:
    """Only shapes whose synchronous workers promise this."""
    with control_flow_of(shape):
        cluster = cluster_of(shape, 2, 2, steps_per_run=str(RUN), update="sync")
        for length in (RUN, 1, 1):
            cluster.train(length, run=length)
        check(shape, cluster, batches_of(shape, 2 * BATCH, RUN + 2))


def masks_of(draw, control_flow: int, seed: int, lengths: list[int]) -> np.ndarray:
    """The masks that the steps of one worker draw, in order."""
    shape = Random(draw, control_flow)
    with control_flow_of(shape):
        cluster = cluster_of(shape, 2, 1, steps_per_run=str(RUN), seed=seed)
        shape.masks.clear()
        for length in lengths:
            cluster.train(length, run=length)
    return np.array(shape.masks)


@pytest.mark.usual(1)
@pytest.mark.parametrize("draw, control_flow", RANDOM, ids=lambda one: getattr(one, "__name__", one))
def test_every_step_draws_numbers_of_its_own_which_its_seed_repeats(draw, control_flow: int) -> None:
    masks = masks_of(draw, control_flow, 3, [RUN, 1, RUN])
    assert masks.shape == (2 * RUN + 1, SIZE)
    assert set(np.round(np.unique(masks), 4)) == {0.0, 2.0}
    assert len(np.unique(masks, axis=0)) == len(masks)
    # Two steps agree in half of 64 numbers by chance: 5 standard deviations are 0.31.
    agree = [(one == other).mean() for number, one in enumerate(masks) for other in masks[:number]]
    assert max(agree) < 0.5 + 5 * 0.5 / np.sqrt(SIZE)
    drawn = masks.size
    assert abs(masks.mean() - 1) < 4 / np.sqrt(drawn)
    assert abs(masks.var() - 1) < 4 / np.sqrt(drawn)
    np.testing.assert_array_equal(masks_of(draw, control_flow, 3, [RUN]), masks[:RUN])
