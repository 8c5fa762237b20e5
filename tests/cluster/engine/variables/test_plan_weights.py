"""A restored run may place its variables by other weights: values, slots and tables are those of the checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.tables import Bags


@pytest.mark.long
def test_a_checkpoint_restores_into_a_plan_of_other_weights(tmp_path):
    model, fields = Bags(count=400, dense=True), {"optimizer": "adagrad", "update": "sync", "batch_size": 8}
    even = InProcessCluster(model, 2, 1, tmp_path, **fields)
    even.start()
    even.train(5)
    even.snapshots.save(even.sessions[0])
    saved = even.values()
    found = []
    for weights in ("", "1,0.25"):
        again = InProcessCluster(model, 2, 1, tmp_path, ps_weights=weights, **fields)
        assert again.start(restore=True) == 5
        restored = again.values()
        assert set(restored) == set(saved)
        assert all(np.array_equal(restored[key], value) for key, value in saved.items())
        again.train(3)
        found.append((again.values(), again.plan.bytes_per_ps()))
    (after_even, held_even), (after_weighted, held) = found
    assert held[1] < 0.5 * held[0] and held_even[1] > 0.7 * held_even[0]
    for key, value in after_even.items():
        np.testing.assert_allclose(after_weighted[key], value, rtol=1e-5, atol=1e-6, err_msg=key)
