"""--warmup_steps: a cluster equals one process whose learning rate has the same schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, train_plainly
from tests.support.long import long
from tests.support.models.small import Linear

RATE, WARM, STEPS, SIZE = 0.05, 4, 7, 4


@pytest.mark.parametrize(
    ("num_workers", "fields"),
    [
        (1, {"update": "async", "optimizer": "sgd"}),
        (2, {"update": "sync", "optimizer": "adagrad"}),
        long(2, {"update": "sync", "optimizer": "adam", "accumulate": 2}),
    ],
)
def test_the_first_updates_have_a_part_of_the_rate(num_workers: int, fields: dict[str, Any]) -> None:
    model = Linear(count=400)
    cluster = InProcessCluster(
        model, 2, num_workers, batch_size=SIZE, learning_rate=RATE, warmup_steps=WARM, partition_bytes=8, **fields
    )
    cluster.start()
    initial = cluster.values()
    cluster.train(STEPS)

    def optimizer() -> Any:
        share = tf.minimum((tf.cast(v1.train.get_global_step(), tf.float32) + 1) / WARM, 1.0)
        return make_optimizer(fields["optimizer"], RATE * share)

    data, each = model.data("train", ""), SIZE * fields.get("accumulate", 1)
    rows = [
        np.concatenate([np.arange(w, 400, num_workers)[step * each : (step + 1) * each] for w in range(num_workers)])
        for step in range(STEPS)
    ]
    batches = [(data.features[some], data.labels[some]) for some in rows]
    plain = train_plainly(model, optimizer, initial, batches, with_step=True)
    for name in ("w", "b"):
        np.testing.assert_allclose(cluster.values()[name], plain[name], rtol=1e-5, atol=1e-6)
