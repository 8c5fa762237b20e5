"""Initial values depend on the seed, not on the number of ps."""

from __future__ import annotations

import numpy as np

from ps_train.models.digits import Digits
from tests.support.cluster import InProcessCluster


def test_initial_values_do_not_depend_on_the_number_of_ps_but_on_the_seed() -> None:
    values = []
    for num_ps, seed in ((1, 5), (3, 5), (1, 6)):
        cluster = InProcessCluster(Digits(hidden=16), num_ps, 1, seed=seed)
        cluster.start()
        values.append(cluster.values()["hidden1/weights"])
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])
