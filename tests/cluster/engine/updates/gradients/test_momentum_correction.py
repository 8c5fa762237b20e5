"""Momentum under top_k is on the worker, as by Lin et al. 2018."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.engine.updates.gradients.apply_gradients import RulesOfModel
from ps_train.engine.updates.gradients.momentum_correction import momenta_of
from tests.support.clusters.coded import WIDTH, Fixed, cluster_of, values_of
from tests.support.long import long


@pytest.mark.parametrize("use_nesterov", [False, long(True)], ids=["plain", "nesterov"])
def test_momentum_is_on_the_worker_and_no_slot_on_the_ps(use_nesterov):
    model = Fixed()
    model.optimizer = lambda name, rate: v1.train.MomentumOptimizer(rate, 0.9, use_nesterov=use_nesterov)
    cluster = cluster_of(model, push_codec="top_k:0.1", learning_rate=0.1, num_ps=1)
    velocity, kept, expected = np.zeros(2 * WIDTH), np.zeros(2 * WIDTH), np.ones(2 * WIDTH)
    for number in range(8):
        mean = model.data("train", "").features[number * 8 :][:8].mean(0)
        gradient = np.concatenate([mean, 0.01 * mean[::-1]])
        velocity = 0.9 * velocity + gradient
        kept = kept + (gradient + 0.9 * velocity if use_nesterov else velocity)
        sent = np.argsort(-np.abs(kept))[: 2 * WIDTH // 10]
        expected[sent] -= 0.1 * kept[sent]
        kept[sent] = velocity[sent] = 0
        cluster.train(1)
    found = values_of(cluster)
    assert np.concatenate([found["first"], found["second"]]) == pytest.approx(expected, abs=1e-5)
    assert sorted(found) == ["first", "second"], "no slot"


def found_momenta(codec: str, model: Any, names: list[str]) -> dict:
    job = Job(push_codec=codec)
    return momenta_of(job, RulesOfModel(job, model), names)


def test_a_momentum_that_is_no_number_is_refused():
    model = Fixed()
    model.optimizer = lambda name, rate: v1.train.MomentumOptimizer(rate, lambda: 0.9)
    with pytest.raises(ConfigError, match=r"push_codec=top_k:0.1.* not first: use a number"):
        found_momenta("top_k:0.1", model, ["first"])
    assert found_momenta("int8", model, ["first"]) == {}


@pytest.mark.long
def test_other_optimizers_stay_on_the_ps():
    model = Fixed()
    model.optimizer = lambda name, rate: {
        "": v1.train.AdamOptimizer(rate),
        "sec": v1.train.MomentumOptimizer(rate, 0.5),
    }
    found = found_momenta("top_k:0.1", model, ["first", "second"])
    assert {name: momentum.factor for name, momentum in found.items()} == {"second": 0.5}
    cluster = cluster_of(model, push_codec="top_k:0.1", learning_rate=0.1)
    cluster.train(2)
    slots = {key.partition("/")[2] for key in values_of(cluster) if key.startswith(("first/", "second/"))}
    assert slots == {"Adam", "Adam_1"}
