"""At the end nothing is left out: the sum of all gradients is applied, and steps are reproducible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.engine.variables.worker_state import OWN
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.coded import Fixed, cluster_of, finish, values_of
from tests.support.long import long

ALL = ("bfloat16", "float16", "int8", "top_k:0.05", "top_k:0.05,int8")
MODES = (("async", 1, 4), ("async", 2, 1), ("sync", 2, 4), ("bounded", 2, 1))
QUICK = [("bfloat16", "async", 1, 2), ("int8", "sync", 2, 2), ("top_k:0.05", "bounded", 2, 1)]


@pytest.mark.parametrize(
    ("codec", "update", "workers", "run"), [*QUICK, *(long(codec, *mode) for codec in ALL for mode in MODES)]
)
@pytest.mark.usual(1)
def test_pushes_and_what_they_leave_out_are_the_sum_of_all_gradients(codec, update, workers, run):
    plain, coded = (
        cluster_of(Fixed(), workers, run=run, update=update, push_codec=name, accumulate=2) for name in ("none", codec)
    )
    for cluster in (plain, coded):
        cluster.train(8, run)
    expected, before = values_of(plain), values_of(coded)
    assert any(np.abs(before[key] - expected[key]).max() > 1e-5 for key in expected), "something is left out"
    assert finish(coded)
    for key, value in values_of(coded).items():
        assert value == pytest.approx(expected[key], abs=2e-5)
    counts = [cluster.sessions[0].run(cluster.steps[0].ps.global_step) for cluster in (plain, coded)]
    assert counts[0] == counts[1]


@pytest.mark.long
@pytest.mark.parametrize("pull", ["bfloat16", "int8"])
@pytest.mark.parametrize("codec", [long("bfloat16"), "int8", long("top_k:0.05"), long("top_k:0.05,int8")])
@pytest.mark.usual(1)
def test_two_synchronous_workers_are_reproducible_bit_by_bit_whatever_the_length_of_a_call(codec, pull):
    found = []
    for run in (1, 1, 3):
        cluster = cluster_of(Fixed(), 2, run=run, update="sync", push_codec=codec, pull_codec=pull)
        cluster.train(12, run)
        finish(cluster)
        found.append(values_of(cluster))
    for other in found[1:]:
        for key, value in found[0].items():
            assert np.array_equal(value, other[key])


RATE, ROWS = 0.1, 24


class Exact(Fixed):
    """Gradients of its two variables that are exact in 16 bits, or in none; not every value has one."""

    def __init__(self, optimizer: Any, scale: float = 0.5) -> None:
        self.optimizer, self.scale = lambda name, rate: optimizer(), scale

    def data(self, split, data_dir):
        signs = np.where(np.arange(ROWS) % 3 == 2, 0, (-1.0) ** np.arange(ROWS))
        return Arrays(np.full((64, ROWS), self.scale * signs, np.float32), np.zeros(64, np.float32))

    def forward(self, features, training):
        first = v1.get_variable("first", [ROWS], initializer=v1.ones_initializer())
        second = v1.get_variable("second", [ROWS], initializer=v1.ones_initializer())
        return tf.reduce_sum(features * (first + 2 * second), 1)


class Schedule(v1.train.MomentumOptimizer):
    """Momentum whose rate falls with the global step."""

    def __init__(self) -> None:
        super().__init__(v1.train.exponential_decay(RATE, v1.train.get_global_step(), 1, 0.5), 0.9)


OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(RATE),
    "momentum": lambda: v1.train.MomentumOptimizer(RATE, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(RATE, 0.9, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(RATE),
    "adagrad": lambda: v1.train.AdagradOptimizer(RATE),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(RATE),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(RATE, momentum=0.9, centered=True),
    "ftrl": lambda: v1.train.FtrlOptimizer(RATE, l1_regularization_strength=0.01),
    "adagrad_da": lambda: v1.train.AdagradDAOptimizer(
        RATE, v1.train.get_global_step(), l1_regularization_strength=0.01
    ),
    "schedule": Schedule,
    "two": lambda: {"": v1.train.AdamOptimizer(RATE), "sec": v1.train.MomentumOptimizer(RATE, 0.9)},
}


def whole(cluster: InProcessCluster) -> dict[str, np.ndarray]:
    """All values, slots and powers of beta."""
    return {name: value for name, value in cluster.values().items() if not name.startswith("ps_train/")}


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
@pytest.mark.parametrize("optimizer", [one if one in ("adam", "two") else long(one) for one in OPTIMIZERS])
def test_where_nothing_is_left_out_the_end_changes_no_bit(optimizer: str, update: str) -> None:
    plain, coded = (cluster_of(Exact(OPTIMIZERS[optimizer]), update=update, push_codec=c) for c in ("none", "bfloat16"))
    for cluster in (plain, coded):
        cluster.train(3)
    assert not finish(coded)
    coded.train(2)
    plain.train(2)
    assert not finish(coded), "as when max_steps is raised"
    expected = whole(plain)
    for name, value in whole(coded).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def residual_of(cluster: InProcessCluster) -> dict[str, np.ndarray]:
    """What the pushes of a worker with one ps have left out."""
    own = cluster.steps[0].graph.get_collection(OWN)
    (variable,) = [one for one in own if one.op.name == "ps_train/residual_0/0"]
    kept = cluster.sessions[0].run(variable)
    return {"first": kept[:ROWS], "second": kept[ROWS : 2 * ROWS]}


def moved(name: str, w: np.ndarray, slots: dict[str, np.ndarray], r: np.ndarray) -> np.ndarray:
    """A step with the residual as its gradient, minus one with zeros."""

    def step(g: np.ndarray) -> np.ndarray:
        if name == "momentum":
            return -RATE * (0.9 * slots["Momentum"] + g)
        if name == "nesterov":
            return -RATE * (g + 0.9 * (0.9 * slots["Momentum"] + g))
        if name == "adagrad":
            return -RATE * g / np.sqrt(slots["Adagrad"] + g**2)
        if name == "adam":
            rate = RATE * np.sqrt(1 - slots["beta2_power"]) / (1 - slots["beta1_power"])
            m, v = 0.9 * slots["Adam"] + 0.1 * g, 0.999 * slots["Adam_1"] + 0.001 * g**2
            return -rate * m / (np.sqrt(v) + 1e-8)
        if name == "rmsprop":
            square, mean = 0.9 * slots["RMSProp"] + 0.1 * g**2, 0.9 * slots["RMSProp_1"] + 0.1 * g
            return -(0.9 * slots["RMSProp_2"] + RATE * g / np.sqrt(square - mean**2 + 1e-10))
        if name == "ftrl":
            sums = slots["Ftrl"] + g**2
            linear = slots["Ftrl_1"] + g - (np.sqrt(sums) - np.sqrt(slots["Ftrl"])) / RATE * w
            shrunk = np.sign(linear) * np.maximum(np.abs(linear) - 0.01, 0)
            return -shrunk / (np.sqrt(sums) / RATE) - w
        return -RATE * g

    return step(r) - step(np.zeros_like(r))


@pytest.mark.long
@pytest.mark.parametrize(
    "optimizer",
    [long("sgd"), "momentum", long("nesterov"), "adam", long("adagrad"), long("rmsprop"), "ftrl"],
)
def test_a_residual_moves_its_value_by_the_difference_that_it_makes_to_a_step(optimizer: str) -> None:
    cluster = cluster_of(Exact(OPTIMIZERS[optimizer], scale=0.337), num_ps=1, push_codec="bfloat16")
    cluster.train(4)
    before, residual = whole(cluster), residual_of(cluster)
    assert finish(cluster)
    after = whole(cluster)
    for name, r in residual.items():
        assert 0 < (r == 0).sum() < ROWS, "some values have a residual"
        slots = {key.removeprefix(f"{name}/"): value.astype(float) for key, value in before.items()}
        expected = before[name] + moved(optimizer, before[name].astype(float), slots, r.astype(float))
        np.testing.assert_allclose(after[name], expected, rtol=2e-6, atol=1e-7)
        np.testing.assert_array_equal(after[name][r == 0], before[name][r == 0])
        assert (after[name][r != 0] != before[name][r != 0]).all()
    for key in before.keys() - residual.keys():
        if optimizer != "ftrl":
            np.testing.assert_array_equal(after[key], before[key], err_msg=key)


def test_ftrl_does_not_forget_a_residual_when_the_training_goes_on() -> None:
    """It computes a value from the sums in its slots, so these take the residual up."""
    plain, coded = (
        cluster_of(Exact(OPTIMIZERS["ftrl"], scale=0.337), num_ps=1, push_codec=c) for c in ("none", "top_k:0.3")
    )
    for cluster in (plain, coded):
        cluster.train(4)
    lacking = np.abs(whole(coded)["first/Ftrl_1"] - whole(plain)["first/Ftrl_1"]).max()
    finish(coded)
    assert np.abs(whole(coded)["first"]).max() < np.abs(whole(plain)["first"]).max() + 0.1
    assert np.abs(whole(coded)["first/Ftrl_1"] - whole(plain)["first/Ftrl_1"]).max() < lacking
