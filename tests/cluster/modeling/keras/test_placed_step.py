"""Large embeddings of Keras models: rows, or all rows, over several ps; the reference is Keras."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import ps_train
from ps_train.config.job import Job
from ps_train.modeling.keras.keras_model import KerasModel
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long

ROWS, BATCH, STEPS = 20_000, 8, 3
RANDOM = np.random.RandomState(1)
IDS = RANDOM.permutation(ROWS)[: BATCH * STEPS * 2].reshape(-1, 2).astype(np.int32)  # no id repeats
LABELS = RANDOM.randn(len(IDS), 1).astype(np.float32)


def network(optimizer: Any) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(2)
    layers = [keras.layers.Embedding(ROWS, 16, name="table"), keras.layers.Flatten(), keras.layers.Dense(1, name="out")]
    found = keras.Sequential([keras.Input((2,), dtype="int32"), *layers], name="net")
    found.compile(optimizer, "mse", jit_compile=False)
    return found


@pytest.mark.parametrize(
    ("make", "tables"),
    [
        (lambda: keras.optimizers.Adagrad(0.5), "rows"),
        long(lambda: keras.optimizers.SGD(0.5), "rows"),
        (lambda: keras.optimizers.Adam(0.05), "dense"),
    ],
)
def test_values_are_those_of_keras(make: Any, tables: str) -> None:
    expected = network(make())
    expected.fit(IDS, LABELS, batch_size=BATCH, shuffle=False, verbose=0)
    model = KerasModel(network(make()), lambda split, data_dir: ps_train.Arrays(IDS, LABELS))
    model.use_flags(Job(keras_tables=tables))
    cluster = InProcessCluster(model, 2, 1, batch_size=BATCH)
    assert bool(cluster.traced.tables()) == (tables == "rows")
    cluster.start()
    cluster.train(STEPS)
    values = cluster.values()
    for one in expected.weights:
        np.testing.assert_allclose(values[one.path], one.numpy(), atol=2e-6, rtol=1e-5, err_msg=one.path)
    found = cluster.score()
    scores = expected.evaluate(IDS, LABELS, verbose=0, return_dict=True)
    assert found == {name: pytest.approx(value, rel=1e-4) for name, value in scores.items()}
