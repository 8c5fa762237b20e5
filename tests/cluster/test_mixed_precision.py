"""Workers that compute in 16 bits, on variables of float32."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.loss_scaling import FIRST, LossScaling
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long
from tests.support.models.mixed import MixedBags, Normalized, Perceptron, Plain, ScaledDescent, Steep

RATE, BATCH = 5.0, 4
STEEP_RATE, OVERFLOWS, FITTING = 0.01, 5, FIRST / 32
"""For `Steep`: a learning rate, the number of its first gradients that overflow, and the loss scale after them."""


def cluster_of(model: Any, dtype: str, num_ps: int = 2, workers: int = 1, **fields: Any) -> InProcessCluster:
    settings = {"optimizer": "sgd", "learning_rate": RATE, "batch_size": BATCH, **fields}
    cluster = InProcessCluster(model, num_ps, workers, partition_bytes=64, compute_dtype=dtype, **settings)
    cluster.start()
    return cluster


def assert_equal(found: dict, expected: dict, tolerance: float) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=tolerance, rtol=tolerance, err_msg=name)


def scale_of(cluster: InProcessCluster, worker: int = 0) -> float:
    (part,) = cluster.steps[worker].parts.of(LossScaling)
    return float(cluster.sessions[worker].run(part.present))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (Perceptron, "float16"),
        (Normalized, "bfloat16"),
        (MixedBags, "float16"),
        long(Perceptron, "bfloat16"),
        long(Normalized, "float16"),
        long(MixedBags, "bfloat16"),
    ],
)
@pytest.mark.usual(1)
def test_training_equals_a_plain_session_with_the_same_casts(kind, dtype: str) -> None:
    model = kind()
    cluster = cluster_of(model, dtype)
    initial = cluster.values()
    assert all(value.dtype == np.float32 for value in initial.values() if value.dtype.kind == "f" and value.ndim)
    cluster.train(15)
    scale, batches = FIRST if dtype == "float16" else 1.0, batches_of(model, BATCH, 15)
    casts = Plain(kind(), tf.as_dtype(dtype))
    plain = train_plainly(casts, lambda: ScaledDescent(RATE, scale), initial, batches)
    found = cluster.values()
    assert_equal(found, plain, 1e-6)
    assert found["ps_train/skipped"] == 0 and found["global_step"] == 15
    wide = train_plainly(kind(), lambda: make_optimizer("sgd", RATE), initial, batches)
    name = max(plain, key=lambda key: np.abs(plain[key] - wide[key]).max())
    assert np.abs(plain[name] - wide[name]).max() > 1e-4, "16 bits must make a difference"


@pytest.mark.long
def test_accumulated_batches_are_added_up_in_float32() -> None:
    model = Perceptron()
    cluster = cluster_of(model, "bfloat16", accumulate=3)
    initial = cluster.values()
    cluster.train(4)

    class Three(Plain):
        """The sum of the losses of three batches, each with casts of its own."""

        def loss(self, outputs, labels):
            parts = zip(tf.split(outputs, 3), tf.split(labels, 3), strict=True)
            return tf.add_n([super(Three, self).loss(a, b) for a, b in parts])

        def forward(self, features, training):
            with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
                found = [super(Three, self).forward(part, training) for part in tf.split(features, 3)]
            v1.get_default_graph().get_collection_ref(v1.GraphKeys.REGULARIZATION_LOSSES)[1:] = []
            return tf.concat(found, 0)

    batches = batches_of(model, 3 * BATCH, 4)
    plain = train_plainly(Three(Perceptron(), tf.bfloat16), lambda: make_optimizer("sgd", RATE / 3), initial, batches)
    assert_equal(cluster.values(), plain, 1e-6)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [long("bfloat16"), "float16"])
@pytest.mark.parametrize("update", ["async", long("bounded"), "sync"])
def test_several_steps_in_a_call_are_the_same_steps_bit_by_bit(dtype: str, update: str) -> None:
    found = []
    for run in (1, 4):
        cluster = cluster_of(
            Steep(), dtype, update=update, steps_per_run=str(run), optimizer="adam", learning_rate=STEEP_RATE
        )
        cluster.train(12, run=run)
        found.append((cluster.values(), cluster.read("ps_train/skipped"), dtype == "float16" and scale_of(cluster)))
    assert found[0][1:] == found[1][1:]
    for name, value in found[0][0].items():
        np.testing.assert_array_equal(value, found[1][0][name], err_msg=name)
    assert found[0][1] == (OVERFLOWS if dtype == "float16" else 0)


@pytest.mark.long
def test_variables_in_the_checkpoint_are_float32_and_so_are_loss_and_metrics(tmp_path: pathlib.Path) -> None:
    cluster = InProcessCluster(Perceptron(), 2, 1, tmp_path, compute_dtype="bfloat16", batch_size=BATCH)
    cluster.start()
    cluster.train(2)
    assert cluster.snapshots is not None
    cluster.snapshots.save(cluster.sessions[0])
    cluster.snapshots.wait(cluster.sessions[0])
    reader = tf.train.load_checkpoint(str(tmp_path))
    dtypes = {name: reader.get_variable_to_dtype_map()[name] for name in ("rows", "hidden/weights", "logits/bias")}
    assert set(dtypes.values()) == {tf.float32}
    assert not any("loss_scale" in name for name in reader.get_variable_to_dtype_map())
    assert cluster.steps[0].worker.loss.dtype == tf.float32


@pytest.mark.long
def test_values_are_cast_once_and_only_for_another_dtype() -> None:
    def casts(dtype: str) -> int:
        cluster = InProcessCluster(Perceptron(), 1, 1, compute_dtype=dtype, accumulate=3, batch_size=2)
        graph = cluster.steps[0].graph
        shapes = {(5, 8), (7, 8)}
        return sum(
            op.type == "Cast" and op.inputs[0].dtype == tf.float32 and tuple(op.inputs[0].shape) in shapes
            for op in graph.get_operations()
            if op.type == "Cast" and op.inputs[0].shape.rank == 2 and op.inputs[0].shape.is_fully_defined()
        )

    assert casts("bfloat16") == 2 and casts("float32") == 0


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize("clip", [long(None), 1e6])
def test_an_overflow_is_skipped_and_counted_and_training_goes_on(num_ps: int, clip: float | None) -> None:
    """At all scales above 2**10 the gradients overflow, also where a transform would hide that."""
    model = Steep()
    cluster = cluster_of(model, "float16", num_ps, learning_rate=STEEP_RATE, clip_value=clip)
    before = cluster.values()
    scales = []
    for _ in range(OVERFLOWS):
        cluster.train(1)
        scales.append(scale_of(cluster))
    after = cluster.values()
    assert scales == [FIRST / 2, FIRST / 4, FIRST / 8, FIRST / 16, FITTING]
    assert after.pop("ps_train/skipped") == OVERFLOWS and before.pop("ps_train/skipped") == 0
    assert_equal(after, before, 0.0)
    cluster.train(5)
    assert scale_of(cluster) == FITTING and cluster.global_step() == 5
    initial = {name: before[name] for name in ("layer/weights", "layer/bias")}
    batches = batches_of(model, BATCH, OVERFLOWS + 5)[OVERFLOWS:]
    casts = Plain(Steep(), tf.float16)
    plain = train_plainly(casts, lambda: ScaledDescent(STEEP_RATE, FITTING), initial, batches)
    assert_equal(cluster.values(), plain, 1e-6)
    assert cluster.read("ps_train/skipped") == OVERFLOWS and cluster.read("ps_train/examples") == 5 * BATCH


@pytest.mark.long
def test_each_worker_has_its_own_scale_and_a_round_is_of_the_finite_gradients() -> None:
    model = Steep(steep=lambda index: index % 2 == 1)  # the examples of worker 1
    cluster = cluster_of(model, "float16", workers=2, update="sync", learning_rate=STEEP_RATE)
    cluster.train(OVERFLOWS + 2)
    assert [scale_of(cluster, worker) for worker in range(2)] == [FIRST, FITTING]
    values = cluster.values()
    assert values["ps_train/skipped"] == OVERFLOWS and values["global_step"] == OVERFLOWS + 2
    assert values["ps_train/examples"] == (OVERFLOWS + 2 + 2) * BATCH


@pytest.mark.long
def test_the_scale_outlives_a_session() -> None:
    cluster = cluster_of(Steep(), "float16", learning_rate=STEEP_RATE)
    cluster.train(OVERFLOWS + 1)
    assert scale_of(cluster) == FITTING and cluster.global_step() == 1
    cluster.open_again(0)
    assert scale_of(cluster) == FITTING
    cluster.train(2)
    assert cluster.global_step() == 3 and cluster.read("ps_train/skipped") == OVERFLOWS


class Overflows(Steep):
    """Its outputs overflow in float16, so that the loss itself is not finite."""

    def forward(self, features, training):
        return super().forward(features, training) * 60000.0 * 60000.0


@pytest.mark.usual(1)
@pytest.mark.parametrize("on_nan", ["stop", "skip"])
def test_a_loss_that_is_not_finite_is_for_on_nan(on_nan: str) -> None:
    cluster = cluster_of(Overflows(), "float16", on_nan=on_nan)
    if on_nan == "stop":
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
            cluster.train(1)
    else:
        cluster.train(2)
        assert cluster.read("ps_train/skipped") == 2 and scale_of(cluster) == FIRST
    assert cluster.global_step() == 0


class Reversed(Perceptron):
    """Uses the gradients in another sign; they come in float32, and of the values that were pulled."""

    def compute_gradients(self, loss, variables):
        assert all(value.dtype == tf.float32 for value in variables.values())
        found = super().compute_gradients(loss, variables)
        assert all(gradient.dtype == tf.float32 for gradient in found.values())
        return {name: -tf.convert_to_tensor(gradient) for name, gradient in found.items()}


@pytest.mark.long
def test_a_models_own_gradients_are_of_float32() -> None:
    cluster = cluster_of(Reversed(), "float16")
    initial = cluster.values()
    cluster.train(1)
    other = cluster_of(Perceptron(), "float16")
    assert_equal(other.values(), initial, 0.0)
    other.train(1)
    for name in ("hidden/weights", "logits/bias"):
        np.testing.assert_allclose(
            cluster.values()[name] - initial[name], initial[name] - other.values()[name], atol=1e-7, err_msg=name
        )
