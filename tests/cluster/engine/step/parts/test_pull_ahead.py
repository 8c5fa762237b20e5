"""Values that are pulled ahead, from call to call."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.parcels import pack
from ps_train.engine.variables.worker_state import OWN
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.tables import Bags

RATE = 0.05
one_or_two_ps = pytest.mark.parametrize("num_ps", [long(1), 2])


class StepInLoss(Linear):
    """Its gradient is the global step that it has seen."""

    def forward(self, features, training):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        return w * tf.cast(v1.train.get_or_create_global_step(), tf.float32) + 0 * tf.reduce_sum(features)

    def loss(self, outputs, labels):
        return outputs


def cluster_of(model, num_ps, workers=1, run=4, **fields):
    fields = {"optimizer": "sgd", "learning_rate": RATE, "batch_size": 4, "steps_per_run": str(run), **fields}
    cluster = InProcessCluster(model, num_ps, workers, partition_bytes=8, prefetch_pulls=1, **fields)
    cluster.start()
    return cluster


def kept(cluster) -> list[np.ndarray]:
    graph = cluster.steps[0].graph
    (variable,) = [v for v in graph.get_collection(OWN) if "kept_pull" in v.op.name]
    kept = next(op for op in graph.get_operations() if op.type == "OptionalGetValue")
    with graph.as_default(), tf.device(variable.device):
        read = tf.raw_ops.OptionalGetValue(
            optional=variable.read_value(),
            output_types=[tensor.dtype for tensor in kept.outputs],
            output_shapes=[tensor.shape for tensor in kept.outputs],
        )
    return cluster.sessions[0].run(read)


def values_in(vectors: list[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate([vector for vector in vectors if vector.dtype == np.float32]))


@one_or_two_ps
def test_a_call_begins_with_the_values_that_the_call_before_it_has_kept(num_ps: int) -> None:
    model = Linear(count=120, width=5)
    cluster = cluster_of(model, num_ps, run=2)
    batches = batches_of(model, 4, 12)
    for x, y in batches:
        before = cluster.values()
        began_with = kept(cluster)
        cluster.sessions[0].run(cluster.steps[0].steps_per_call(1))
        after = cluster.values()
        # The call has pulled for the next one, before or after its own update.
        assert any(
            np.isin(np.concatenate([some["w"].ravel(), [some["b"]]]), values_in(kept(cluster))).all()
            for some in (before, after)
        )
        w, b = weights_of(cluster, began_with, before)
        error = x @ w - y + b
        np.testing.assert_allclose(after["w"][:, 0] - before["w"][:, 0], -RATE * 2 * x.T @ error / len(y), atol=1e-5)
        np.testing.assert_allclose(after["b"] - before["b"], -RATE * 2 * error.mean(), atol=1e-5)


def weights_of(cluster, vectors, like) -> tuple[np.ndarray, float]:
    """The weights in kept vectors, found by the plan's slices."""
    parts = {}
    floats = [vector for vector in vectors if vector.dtype == np.float32]
    parcels = [parcel for ps in range(cluster.plan.num_ps) for parcel in parcels_of(cluster, ps)]
    for vector, parcel in zip(floats, parcels, strict=True):
        begin = 0
        for piece, size in zip(parcel.slices, parcel.sizes, strict=False):
            parts.setdefault(piece.variable, []).append((piece.name, vector[begin : begin + piece.size]))
            begin += size
    order = {piece.name: number for number, piece in enumerate(cluster.plan.slices)}
    joined = {
        name: np.concatenate([v for _, v in sorted(some, key=lambda s: order[s[0]])]) for name, some in parts.items()
    }
    return joined["w"], float(joined["b"][0])


def parcels_of(cluster, ps):
    return pack(list(cluster.plan.slices_on(ps)), ps)


@one_or_two_ps
def test_the_age_of_kept_values_is_counted_and_a_schedule_sees_the_step_of_its_values(num_ps: int) -> None:
    cluster = cluster_of(StepInLoss(count=120), num_ps)
    for _ in range(10):
        cluster.sessions[0].run(cluster.steps[0].steps_per_call(1))
    staleness = cluster.read("ps_train/staleness")[0]
    assert staleness[:2].sum() == 10 == cluster.global_step() and staleness[1] >= 1
    # The gradient of a step is the step of its values: their sum is that of the steps, less what each was too old.
    seen = -float(cluster.values()["w"]) / RATE
    assert seen == pytest.approx(sum(range(10)) - staleness[1])


def test_a_new_session_begins_with_the_present_values_of_the_ps() -> None:
    cluster = cluster_of(Linear(count=120, width=5), 2, workers=2)
    before = values_in(kept(cluster))
    for _ in range(3):
        cluster.sessions[1].run(cluster.steps[1].steps_per_call(4))
    assert (values_in(kept(cluster)) == before).all()
    cluster.open_again(0)
    now, found = cluster.values(), values_in(kept(cluster))
    assert np.isin(np.append(now["w"].ravel(), now["b"]), found).all() and (found != before).any()


@pytest.mark.long
def test_workers_and_lengths_of_calls_may_be_mixed() -> None:
    cluster = cluster_of(Linear(count=120, width=5), 2, workers=2, run=8, learning_rate=0.02)
    initial = cluster.values()
    for length in (8, 1, 3, 2, 5):
        cluster.train(length * 8, run=length)
    assert cluster.global_step() == 2 * 8 * 19
    assert cluster.read("ps_train/staleness").sum() == cluster.global_step()
    np.testing.assert_allclose(cluster.values()["w"][:, 0], np.arange(1, 6), atol=0.1)
    assert not np.allclose(initial["w"], cluster.values()["w"], atol=0.1)


def test_the_step_with_hooks_may_come_between_calls() -> None:
    cluster = cluster_of(Linear(count=120, width=5), 2)
    step = cluster.steps[0]
    for _ in range(5):
        cluster.sessions[0].run(step.steps_per_call(4))
        cluster.sessions[0].run([step.ops.train, step.worker.loss])
    assert cluster.global_step() == 25
    assert cluster.read("ps_train/staleness")[0, :3].sum() == 25


@pytest.mark.long
def test_rows_of_tables_are_those_of_the_batch() -> None:
    cluster = cluster_of(Bags(), 2, learning_rate=0.005)
    initial = cluster.values()
    cluster.train(40, run=4)
    plain = train_plainly(
        cluster.model, lambda: make_optimizer("sgd", 0.005), initial, batches_of(cluster.model, 4, 40)
    )
    for name, value in plain.items():
        np.testing.assert_allclose(cluster.values()[name], value, atol=0.02, err_msg=name)
        assert not np.allclose(initial[name], value, atol=0.02), "it has learned at all"
