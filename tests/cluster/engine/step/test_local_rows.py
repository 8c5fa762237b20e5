"""Rows of tables in rounds of local steps, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.clusters.cluster import InProcessCluster, batches_of
from tests.support.models.tables import COMBINERS, DIMENSION, ROWS, Bags, NumpyRule, gradients_of_bags

RATE, BATCH = 0.05, 12
TOLERANCE = 3e-6


def cluster_of(num_ps: int, workers: int, **fields: Any) -> InProcessCluster:
    settings = {"learning_rate": RATE, "batch_size": BATCH // workers, **fields}
    cluster = InProcessCluster(Bags(), num_ps, workers, **settings)
    cluster.start()
    return cluster


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "ftrl"])
@pytest.mark.parametrize("update", ["async", "sync"])
def test_rounds_of_one_worker_train_rows_as_plain_steps_do(optimizer: str, update: str) -> None:
    cluster = cluster_of(2, 1, optimizer=optimizer, update=update, local_steps=4)
    initial = cluster.values()
    cluster.rounds([4, 3, 1])
    tables = {name: initial[name].astype(np.float64) for name in COMBINERS}
    rules = {name: NumpyRule(optimizer, RATE, (ROWS, DIMENSION)) for name in COMBINERS}
    for ids, labels in batches_of(Bags(), BATCH, 8):
        for name, (rows, gradient) in gradients_of_bags(tables, ids, labels).items():
            rules[name].apply(tables[name], rows, gradient)
    found = cluster.values()
    assert cluster.global_step() == 8
    for name in COMBINERS:
        np.testing.assert_allclose(found[name], tables[name], atol=TOLERANCE, rtol=TOLERANCE, err_msg=name)
    slots = {key: value for key, value in found.items() if key.partition("/")[0] in COMBINERS and "/" in key}
    assert len(slots) == {"sgd": 0, "ftrl": 6}.get(optimizer, 3)
    for key, value in slots.items():
        rule = rules[key.partition("/")[0]]
        wanted = rule.b if "linear" in key or key.endswith("_1") else rule.a
        np.testing.assert_allclose(value, wanted, atol=TOLERANCE, rtol=TOLERANCE, err_msg=key)
