"""Several devices in one worker: one device with the whole batch, and one pull and one push a step."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.modeling.model import Model, make_optimizer
from tests.cluster.engine.step.parts.test_sharding import EPOCHS, assert_each_was_used, run_all
from tests.cluster.engine.step.test_backward import SomeNan, gradient_of, l2_then_global_norm
from tests.cluster.engine.transport.test_dense import Deep, crossings
from tests.cluster.engine.transport.test_model_state import DECAY, Averaged
from tests.cluster.engine.transport.test_vocabulary import passing
from tests.cluster.test_zoo import check as check_shape
from tests.cluster.test_zoo import control_flow_of
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.data.recording import Recording
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.tables import Bags, PlainBags
from tests.support.models.vocabularies import Visits
from tests.support.models.zoo import ZOO
from tests.support.models.zoo.random import Random, node
from tests.support.models.zoo.shape import Shape

BATCH, STEPS, RATE = 7, 12, 0.05
two_or_three = pytest.mark.parametrize("towers", ["2", long("3")])


def cluster_of(model: Model, towers: str, workers: int = 1, run: int = 1, **fields: Any) -> InProcessCluster:
    settings = {"batch_size": BATCH, "optimizer": "sgd", "learning_rate": RATE, "steps_per_run": str(run), **fields}
    cluster = InProcessCluster(model, 2, workers, partition_bytes=8, towers=towers, **settings)
    cluster.start()
    cluster.initial = cluster.values()
    return cluster


def check(cluster: InProcessCluster, expected: dict[str, np.ndarray], close: float = 1e-6) -> None:
    found = cluster.values()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=close, rtol=close, err_msg=name)


@two_or_three
@pytest.mark.parametrize("run", [long(1), 4])
@pytest.mark.parametrize("optimizer", [long("sgd"), "adam"])
def test_a_worker_of_several_devices_makes_the_steps_of_one_device(towers: str, run: int, optimizer: str) -> None:
    model = Linear(count=120, width=5)
    cluster = cluster_of(model, towers, run=run, optimizer=optimizer)
    cluster.train(STEPS, run=run)
    check(
        cluster,
        train_plainly(model, lambda: make_optimizer(optimizer, RATE), cluster.initial, batches_of(model, BATCH, STEPS)),
    )
    assert cluster.values()["ps_train/examples"] == STEPS * BATCH


@two_or_three
def test_l2_and_clipping_see_the_mean_of_all_devices(towers: str) -> None:
    model = Linear(count=120, width=5)
    cluster = cluster_of(model, towers, l2=0.3, clip_global_norm=0.5)
    values = [cluster.initial["w"].astype(float), float(cluster.initial["b"])]
    for x, y in batches_of(model, BATCH, STEPS):
        gradient = l2_then_global_norm(list(gradient_of(x, y, *values)), values)
        values = [value - RATE * g for value, g in zip(values, gradient, strict=True)]
    cluster.train(STEPS)
    check(cluster, dict(zip(("w", "b"), values, strict=True)), 1e-5)


@two_or_three
@pytest.mark.parametrize("fields", [{}, long({"update": "sync"})], ids=str)
def test_a_last_batch_that_is_smaller_than_the_devices_are_many_counts_once(towers: str, fields: dict) -> None:
    model = Linear(count=22)
    cluster = cluster_of(model, towers, epochs=1, **fields)
    cluster.train(4)
    data = model.data("train", "")
    batches = [(data.features[at : at + BATCH], data.labels[at : at + BATCH]) for at in range(0, 22, BATCH)]
    check(cluster, train_plainly(model, lambda: make_optimizer("sgd", RATE), cluster.initial, batches))
    assert cluster.values()["ps_train/examples"] == 22


@pytest.mark.long
def test_with_dynamic_sharding_every_example_is_used_once() -> None:
    cluster = InProcessCluster(Recording(count=203, ones=True), 2, 1, update="sync", towers="3", **EPOCHS)
    cluster.start()
    run_all(cluster)
    assert_each_was_used(cluster, 1)
    assert cluster.values()["ps_train/examples"] == 203


CHOSEN = {"with_ragged", "with_sparse", "with_nested", "looked_up", "regularized", "annealed", "in_a_function"}


@pytest.mark.parametrize(
    "shape",
    [s for s in ZOO.values() if s.name in CHOSEN],
    ids=str,
)
@pytest.mark.usual(1)
def test_every_shape_of_model_trains_as_on_one_device(shape: Shape) -> None:
    with control_flow_of(shape):
        cluster = InProcessCluster(shape, 2, 1, partition_bytes=64, batch_size=5, towers="2", steps_per_run="4")
        cluster.start()
        cluster.initial = cluster.values()
        cluster.train(8, run=4)
        check_shape(shape, cluster, batches_of(shape, 5, 8))


@two_or_three
@pytest.mark.parametrize("run", [long(1), 4])
@pytest.mark.long
def test_tables_train_as_on_one_device(towers: str, run: int) -> None:
    cluster = cluster_of(Bags(dense=True), towers, run=run, optimizer="adagrad", batch_size=12)
    cluster.train(STEPS, run=run)
    plain = train_plainly(
        PlainBags(dense=True), lambda: make_optimizer("adagrad", RATE), cluster.initial, batches_of(Bags(), 12, STEPS)
    )
    check(cluster, plain, 2e-6)


@pytest.mark.long
def test_an_open_vocabulary_has_the_rows_that_it_has_with_one_device() -> None:
    values = []
    for towers in ("1", "2"):
        cluster = cluster_of(Visits(passing(), capacity=8), towers, optimizer="adagrad")
        cluster.train(STEPS)
        values.append(cluster.values())
    for name, value in values[0].items():
        np.testing.assert_allclose(values[1][name], value, atol=1e-6, rtol=1e-6, err_msg=name)


@two_or_three
@pytest.mark.parametrize("run", [1, long(4)])
def test_accumulated_batches_are_divided_one_after_the_other(towers: str, run: int) -> None:
    model = Linear(count=120, width=5)
    cluster = cluster_of(model, towers, run=run, accumulate=2)
    cluster.train(STEPS, run=run)
    batches = batches_of(model, 2 * BATCH, STEPS)
    check(cluster, train_plainly(model, lambda: make_optimizer("sgd", RATE), cluster.initial, batches))


@pytest.mark.long
@pytest.mark.parametrize("fields", [{"update": "sync"}, long({"update": "sync", "accumulate": 2})], ids=str)
def test_two_synchronous_workers_of_two_devices_make_the_steps_of_their_joined_batches(fields: dict) -> None:
    model = Linear(count=112, width=5)
    cluster = cluster_of(model, "2", 2, 4, **fields)
    cluster.train(STEPS, run=4)
    batches = batches_of(model, 2 * BATCH * fields.get("accumulate", 1), STEPS)
    check(cluster, train_plainly(model, lambda: make_optimizer("sgd", RATE), cluster.initial, batches))


@pytest.mark.long
@pytest.mark.parametrize(
    "fields",
    [long({"update": "bounded"}), {"prefetch_pulls": 1}],
    ids=str,
)
def test_what_one_device_trains_with_other_flags_several_train(fields: dict) -> None:
    values = []
    for towers in ("1", "2"):
        cluster = cluster_of(Linear(count=120, width=5), towers, run=4, **fields)
        cluster.train(STEPS, run=4)
        values.append(cluster.values())
    # A value that is pulled ahead may be from before or after the update that goes on meanwhile.
    tolerance = 0.1 if "prefetch_pulls" in fields else 1e-6
    for name in ("w", "b"):
        np.testing.assert_allclose(values[1][name], values[0][name], rtol=1e-6, atol=tolerance, err_msg=name)


@pytest.mark.long
def test_a_part_that_is_not_finite_leaves_out_the_whole_batch() -> None:
    model = SomeNan(count=120)
    cluster = cluster_of(model, "2", on_nan="skip", update="sync")
    cluster.train(3)
    batches = batches_of(model, BATCH, 3)
    assert np.isnan(batches[0][0]).any()
    check(cluster, train_plainly(model, lambda: make_optimizer("sgd", RATE), cluster.initial, batches[1:]))
    assert cluster.values()["ps_train/skipped"] == 1


class Collected(Linear):
    """Its loss is the sum of a collection: of TensorFlow's losses, or of one of its own as in old tutorials."""

    def __init__(self, own: str) -> None:
        super().__init__(count=120, width=5)
        self.own = own

    def loss(self, outputs: Any, labels: Any) -> Any:
        error = tf.reduce_mean(tf.square(outputs - labels))
        if not self.own:
            v1.losses.add_loss(error)
            return v1.losses.get_total_loss()
        v1.add_to_collection(self.own, error)
        v1.add_to_collection(self.own, 0.1 * tf.reduce_mean(tf.abs(outputs)))
        return tf.add_n(v1.get_collection(self.own))


@pytest.mark.long
@pytest.mark.parametrize("own", ["", "losses", long("my_losses")])
@pytest.mark.parametrize(("fields", "batch"), [({"towers": "2"}, 6), ({"towers": "1", "accumulate": 3}, 18)])
def test_a_loss_in_a_collection_is_that_of_its_own_device_or_batch(fields: dict, batch: int, own: str) -> None:
    model = Collected(own)
    cluster = cluster_of(model, **{"batch_size": 6, **fields})
    cluster.train(4)
    batches = batches_of(model, batch, 4)
    check(cluster, train_plainly(model, lambda: make_optimizer("sgd", RATE), cluster.initial, batches), 1e-5)


def first_parts(batches: list, towers: int) -> list:
    return [(x[: -(-len(x) // towers)], y[: -(-len(y) // towers)]) for x, y in batches]


@pytest.mark.long
@two_or_three
@pytest.mark.parametrize(
    ("run", "fields"), [long(1, {}), (4, {}), long(1, {"accumulate": 2}), long(4, {"update": "sync"})]
)
def test_the_first_device_alone_moves_the_state_of_a_model(towers: str, run: int, fields: dict) -> None:
    model = Averaged()
    cluster = cluster_of(model, towers, run=run, **fields)
    cluster.train(STEPS, run=run)
    parts = first_parts(batches_of(model, BATCH, STEPS * fields.get("accumulate", 1)), int(towers))
    mean = np.zeros(5)
    for features, _ in parts:
        mean -= DECAY * (mean - features.mean(0))
    check(cluster, {"mean": mean, "most": max(x.max() for x, _ in parts)})
    assert cluster.values()["count"] == len(parts), "each batch counts once"


@pytest.mark.long
def test_of_several_workers_the_first_device_of_the_first_worker_moves_it() -> None:
    model = Averaged()
    cluster = cluster_of(model, "2", 2, update="sync")
    cluster.train(STEPS)
    own = [(x[0::2], y[0::2]) for x, y in batches_of(model, 2 * BATCH, STEPS)]
    mean = np.zeros(5)
    for features, _ in first_parts(own, 2):
        mean -= DECAY * (mean - features.mean(0))
    check(cluster, {"mean": mean})


class Normalized(Linear):
    """Batch norm without an average: each example is compared with those that it is normalized with."""

    def forward(self, features, training):
        mean, variance = tf.nn.moments(features, axes=[0])
        return super().forward((features - mean) * tf.math.rsqrt(variance + 1e-3), training)


def test_each_device_normalizes_with_the_statistics_of_its_own_part() -> None:
    model = Normalized(count=120, width=5)
    cluster = cluster_of(model, "2")
    w, b = cluster.initial["w"].astype(float), float(cluster.initial["b"])
    for x, y in batches_of(model, BATCH, STEPS):
        parts = [(x[:4], y[:4]), (x[4:], y[4:])]
        normal = [((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), y) for x, y in parts]
        found = [gradient_of(x, y, w, b) for x, y in normal]
        w = w - RATE * sum(len(y) / BATCH * g for (_, y), (g, _) in zip(parts, found, strict=True))
        b = b - RATE * sum(len(y) / BATCH * g for (_, y), (_, g) in zip(parts, found, strict=True))
    cluster.train(STEPS)
    check(cluster, {"w": w, "b": b}, 1e-5)


class Noting(Linear):
    """Counts its calls in a local variable, by UPDATE_OPS, and notes what it finds there and the size of its part."""

    def __init__(self) -> None:
        super().__init__(count=120)
        self.notes: list[tuple[int, int]] = []

    def forward(self, features, training):
        calls = v1.get_variable(
            "calls", [], tf.int64, v1.zeros_initializer(), trainable=False, collections=[v1.GraphKeys.LOCAL_VARIABLES]
        )

        def note(number, size):
            self.notes.append((int(number), int(size)))
            return np.float32(0)

        if training:
            noted = tf.numpy_function(note, [calls.read_value(), tf.shape(features)[0]], tf.float32)
            with tf.control_dependencies([noted]):
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, calls.assign_add(1))
            features += tf.ensure_shape(noted, [])
        return super().forward(features, training)


@pytest.mark.parametrize("run", [1, 4])
@pytest.mark.parametrize("accumulate", [1, long(2)])
@pytest.mark.usual(1)
def test_effects_on_the_worker_keep_the_order_of_the_devices_and_all_update_ops_run(run: int, accumulate: int) -> None:
    model = Noting()
    cluster = cluster_of(model, "2", run=run, accumulate=accumulate)
    model.notes.clear()
    cluster.train(STEPS, run=run)
    assert model.notes == [(number, 4 - number % 2) for number in range(2 * STEPS * accumulate)]


class NotingBags(Bags):
    def forward(self, features, training):
        printed = tf.print("a batch")
        with tf.control_dependencies([printed]):
            return super().forward(features, training)


@pytest.mark.long
def test_tables_and_effects_together_are_refused_in_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        cluster_of(NotingBags(), "2")
    text = str(caught.value)
    assert text.startswith("towers=2 is not possible with tables (sum, mean, sqrtn) and the effect of PrintV2 (")
    assert "test_towers.py" in text and text.endswith("use towers=1.") and "\n" not in text


@pytest.mark.long
@pytest.mark.parametrize("run", [1, long(4)])
def test_every_device_draws_numbers_of_its_own_which_the_seed_repeats(run: int) -> None:
    found = []
    for _ in range(2):
        shape = Random(node, 2)
        with control_flow_of(shape):
            cluster = cluster_of(shape, "2", run=run, batch_size=4)
            shape.masks.clear()
            cluster.train(4, run=run)
        found.append(np.array(shape.masks))
    assert len(found[0]) == 8 and len(np.unique(found[0], axis=0)) == 8
    np.testing.assert_array_equal(*found)


def devices_of(cluster: InProcessCluster) -> dict[str, set[str]]:
    """The devices on which operations of each type ran in one step; oneDNN renames some on some processors."""
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    cluster.sessions[0].run(cluster.steps[0].ops.train, options=options, run_metadata=metadata)
    found = collections.defaultdict(set)
    for device in metadata.step_stats.dev_stats:
        for stats in device.node_stats:
            kind = stats.timeline_label.partition(" = ")[2].partition("(")[0]
            found[kind.removeprefix("_Mkl")].add(device.device.partition("/job:")[2].replace("/replica:0", ""))
    return found


@pytest.mark.long
def test_the_model_runs_on_all_devices_and_input_and_push_on_the_first() -> None:
    cluster = cluster_of(Linear(), "3")
    cluster.train(1)
    found = devices_of(cluster)
    assert found["MatMul"] == {f"worker/task:0/device:CPU:{number}" for number in range(3)}
    assert found["IteratorGetNext"] == {"worker/task:0/device:CPU:0"}
    assert set(found["MutexLock"]) == {"ps/task:0/device:CPU:0", "ps/task:1/device:CPU:0"}
    assert {where.partition("/")[0] for kind in found for where in found[kind]} == {"worker", "ps"}
    assert not any(where.startswith("ps") and not where.endswith("CPU:0") for kind in found for where in found[kind])


@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize(
    "model", [Deep(), long(Averaged()), long(Bags(dense=True))], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("update", [long("async"), "sync"])
@pytest.mark.long
def test_several_devices_send_what_one_device_sends(model: Model, num_ps: int, update: str) -> None:
    one, several = (crossings(model, num_ps, update, "sgd", towers=towers) for towers in ("1", "2"))
    assert one == several and sum(one.values()) >= 2 * num_ps


@pytest.mark.long
def test_a_new_session_after_a_lost_ps_trains_on() -> None:
    model = Averaged()
    cluster = cluster_of(model, "2", run=4)
    cluster.train(4, run=4)
    cluster.open_again(0)
    cluster.train(4, run=4)
    assert cluster.global_step() == 8 and cluster.values()["count"] == 8
