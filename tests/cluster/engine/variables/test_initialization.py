"""Initial values depend on the seed, not on the number of ps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.digits import Digits
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear


def test_initial_values_do_not_depend_on_the_number_of_ps_but_on_the_seed() -> None:
    values = []
    for num_ps, seed in ((1, 5), (3, 5), (1, 6)):
        cluster = InProcessCluster(Digits(hidden=16), num_ps, 1, seed=seed)
        cluster.start()
        values.append(cluster.values()["hidden1/weights"])
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


GIVEN = np.random.default_rng(2).normal(size=(600, 1)).astype(np.float32)


@pytest.mark.parametrize("initializer", [GIVEN, v1.constant_initializer(GIVEN), tf.constant_initializer(GIVEN)])
def test_an_array_is_in_the_graph_once_whatever_the_number_of_slices(initializer: object) -> None:
    class Given(Linear):
        def forward(self, features, training):
            shape = {} if isinstance(initializer, np.ndarray) else {"shape": GIVEN.shape}
            w = v1.get_variable("w", initializer=initializer, **shape)
            return tf.reduce_sum(features) * tf.reduce_sum(w)

    cluster = InProcessCluster(Given(), 3, 1, partition_bytes=GIVEN.nbytes - 1)
    cluster.start()
    assert len(cluster.plan.slices_of("w")) == (1 if isinstance(initializer, np.ndarray) else 3)
    assert np.array_equal(cluster.values()["w"], GIVEN)
    written = cluster.steps[0].graph.as_graph_def().SerializeToString()
    assert written.count(GIVEN[5:20].tobytes()) == written.count(GIVEN[-20:].tobytes()) == 1
