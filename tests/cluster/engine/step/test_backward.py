"""Transforms of gradients, and gradients that are no numbers, under every update mode."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.gradients.push_guard import NOT_FINITE
from tests.support.clusters.cluster import InProcessCluster, batches_of, in_parallel
from tests.support.long import long
from tests.support.models.small import Linear

RATE = 0.1


class SomeNan(Linear):
    """The loss of a batch is NaN where its first example is one of `bad`."""

    bad = (4, 5)

    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        arrays.features[list(self.bad)] = np.nan
        return arrays


def gradient_of(x: np.ndarray, y: np.ndarray, w: np.ndarray, b: float) -> tuple[np.ndarray, float]:
    error = x @ w[:, 0] + b - y
    return (2 * x.T @ error / len(y))[:, None], float(2 * error.mean())


def clipped_by_value(gradient, values):
    return [np.clip(g, -0.5, 0.5) for g in gradient]


def clipped_by_norm(gradient, values):
    return [g * min(1.0, 0.5 / np.linalg.norm(g)) for g in gradient]


def clipped_by_global_norm(gradient, values):
    norm = np.sqrt(sum(np.sum(np.square(g)) for g in gradient))
    return [g * min(1.0, 0.5 / norm) for g in gradient]


def with_l2(gradient, values):
    return [g + 0.3 * v for g, v in zip(gradient, values, strict=True)]


def l2_then_global_norm(gradient, values):
    return clipped_by_global_norm(with_l2(gradient, values), values)


@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize(
    ("fields", "reference"),
    [
        long({"clip_value": 0.5}, clipped_by_value),
        long({"clip_norm": 0.5}, clipped_by_norm),
        ({"clip_global_norm": 0.5}, clipped_by_global_norm),
        long({"l2": 0.3}, with_l2),
        long({"l2": 0.3, "clip_global_norm": 0.5}, l2_then_global_norm),
    ],
)
def test_a_transform_computes_what_numpy_does(fields, reference, num_ps: int) -> None:
    model = Linear(count=40)
    for update, workers in (("async", 1), ("bounded", 1), ("sync", 2)):
        each = 8 // workers
        cluster = InProcessCluster(
            model, num_ps, workers, update=update, optimizer="sgd", learning_rate=RATE, batch_size=each, **fields
        )
        cluster.start()
        w, b = cluster.values()["w"].astype(np.float64), float(cluster.values()["b"])
        for x, y in batches_of(model, 8, 10):
            parts = [
                reference(gradient_of(x[index::workers], y[index::workers], w, b), (w, b)) for index in range(workers)
            ]
            w, b = w - RATE * np.mean([p[0] for p in parts], axis=0), b - RATE * np.mean([p[1] for p in parts])
        cluster.train(10)
        np.testing.assert_allclose(cluster.values()["w"], w, atol=2e-6)
        np.testing.assert_allclose(cluster.values()["b"], b, atol=2e-6)


@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_a_gradient_that_is_no_number_is_never_sent(num_ps: int) -> None:
    cluster = InProcessCluster(SomeNan(count=16), num_ps, 1, optimizer="adam", batch_size=2, learning_rate=RATE)
    cluster.start()
    cluster.train(2)
    before = cluster.values()
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        cluster.train(1)
    after = cluster.values()
    for name, value in before.items():
        assert np.array_equal(value, after[name]), name


class Steep(Linear):
    """The loss stays finite where its gradient does not: that of the root at zero, on a second ps."""

    def loss(self, outputs, labels):
        steep = v1.get_variable("steep", [3], initializer=v1.zeros_initializer())
        return super().loss(outputs, labels) + tf.reduce_sum(tf.sqrt(tf.abs(steep)))


def test_a_gradient_that_is_no_number_is_not_sent_although_the_loss_is_one() -> None:
    cluster = InProcessCluster(Steep(count=16), 2, 1, optimizer="sgd", batch_size=2, learning_rate=RATE)
    cluster.start()
    before = cluster.values()
    assert np.isfinite(cluster.sessions[0].run(cluster.steps[0].worker.loss))
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        cluster.train(1)
    after = cluster.values()
    for name, value in before.items():
        assert np.array_equal(value, after[name]), name


@pytest.mark.long
def test_with_on_nan_skip_a_gradient_that_is_no_number_changes_nothing_but_its_count() -> None:
    cluster = InProcessCluster(SomeNan(count=16), 2, 1, optimizer="adam", batch_size=2, on_nan="skip")
    cluster.start()
    cluster.train(2)
    before = cluster.values()
    cluster.train(1)
    after = cluster.values()
    assert after.pop("ps_train/skipped") == 1 and before.pop("ps_train/skipped") == 0
    for name, value in before.items():
        assert np.array_equal(value, after[name]), name
    cluster.train(1)
    assert cluster.global_step() == 3 and not np.array_equal(cluster.values()["w"], before["w"])


@pytest.mark.long
def test_with_on_nan_skip_a_synchronous_update_is_the_mean_of_the_other_gradients() -> None:
    model = SomeNan(count=16)
    model.bad = (4,)  # worker 0's third batch of one example
    cluster = InProcessCluster(
        model, 1, 2, update="sync", optimizer="sgd", learning_rate=RATE, batch_size=1, on_nan="skip"
    )
    cluster.start()
    cluster.train(2)
    w, b = cluster.values()["w"].astype(np.float64), float(cluster.values()["b"])
    data = model.data("train", "")
    step = gradient_of(data.features[5:6], data.labels[5:6], w, b)
    cluster.train(1)
    np.testing.assert_allclose(cluster.values()["w"], w - RATE * step[0], atol=1e-6)
    assert cluster.values()["ps_train/skipped"] == 1 and cluster.values()["ps_train/examples"] == 5
    assert cluster.global_step() == 3


@pytest.mark.long
def test_with_on_nan_skip_a_synchronous_step_without_any_number_makes_no_update_and_training_goes_on() -> None:
    cluster = InProcessCluster(SomeNan(count=16), 1, 2, update="sync", batch_size=1, on_nan="skip", learning_rate=RATE)
    cluster.start()
    cluster.train(2)
    before = cluster.values()["w"]
    cluster.train(1)
    assert np.array_equal(cluster.values()["w"], before) and cluster.values()["ps_train/skipped"] == 2
    in_parallel([lambda: cluster.train(1)])
    assert not np.array_equal(cluster.values()["w"], before)


@pytest.mark.parametrize("update", ["async", "sync"])
@pytest.mark.parametrize("optimizer", [long("sgd"), "adam"])
@pytest.mark.usual(1)
def test_accumulated_batches_equal_one_larger_batch_and_are_sent_once(update: str, optimizer: str) -> None:
    workers = 2 if update == "sync" else 1
    model = Linear(count=48)
    values = []
    for accumulate, size in ((1, 6), (3, 2)):
        cluster = InProcessCluster(
            model, 2, workers, update=update, optimizer=optimizer, batch_size=size, accumulate=accumulate
        )
        cluster.start()
        cluster.train(20)
        values.append(cluster.values())
    assert values[1]["global_step"] == 20 and values[1]["ps_train/examples"] == 20 * 6 * workers
    for name, value in values[0].items():
        np.testing.assert_allclose(values[1][name], value, atol=1e-6, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", "sync"])
def test_accumulation_counts_a_short_end_of_the_input_by_its_examples_and_nothing_after_it(update: str) -> None:
    cluster = InProcessCluster(
        Linear(count=7), 1, 1, update=update, optimizer="sgd", learning_rate=RATE, batch_size=2, accumulate=3, epochs=1
    )
    cluster.start()
    cluster.train(1)  # six examples
    w, b = cluster.values()["w"].astype(np.float64), float(cluster.values()["b"])
    cluster.train(1)  # one example, and two batches after the end
    data = Linear(count=7).data("train", "")
    expected = w - RATE * gradient_of(data.features[6:], data.labels[6:], w, b)[0]
    np.testing.assert_allclose(cluster.values()["w"], expected, atol=1e-6)
    assert cluster.values()["ps_train/examples"] == 7 and cluster.global_step() == 2
    if update == "async":
        assert cluster.sessions[0].run([cluster.steps[0].worker.examples, cluster.steps[0].ops.train])[0] == 0
        assert cluster.global_step() == 2


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", "sync"])
def test_a_batch_after_the_end_of_the_input_is_not_counted_as_skipped(update: str) -> None:
    model = SomeNan(count=3)
    model.bad = (0,)  # the batch that is repeated after the end
    fields = {"steps_per_run": "3", "epochs": 1, "on_nan": "skip", "learning_rate": RATE}
    cluster = InProcessCluster(model, 1, 1, update=update, batch_size=1, **fields)
    cluster.start()
    cluster.train(6, run=3)
    assert cluster.global_step() == 2 and cluster.values()["ps_train/skipped"] == 1


def test_the_batches_before_the_end_count_although_the_repeated_one_beside_them_is_no_number() -> None:
    model = SomeNan(count=5)
    model.bad = (0,)
    cluster = InProcessCluster(
        model, 1, 1, batch_size=1, epochs=1, accumulate=2, on_nan="skip", optimizer="sgd", learning_rate=RATE
    )
    cluster.start()
    cluster.train(2)  # examples 0 and 1, of which the first is none, then 2 and 3
    w, b = cluster.values()["w"].astype(np.float64), float(cluster.values()["b"])
    data = model.data("train", "")
    step = gradient_of(data.features[4:5], data.labels[4:5], w, b)
    cluster.train(1)  # example 4, and example 0 again without a weight
    np.testing.assert_allclose(cluster.values()["w"], w - RATE * step[0], atol=1e-6)
    assert cluster.global_step() == 2 and cluster.values()["ps_train/skipped"] == 1
