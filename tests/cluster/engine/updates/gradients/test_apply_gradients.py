"""Each group of variables has its own optimizer."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.optimizers import LazyAdam
from tests.support.models.refused_tables import Table, built


class Grouped(Table):
    """The table by one optimizer, the rest by another."""

    def optimizer(self, name, learning_rate):
        return {"ads": LazyAdam(0.01), "": v1.train.MomentumOptimizer(0.1, 0.5)}


def test_every_group_of_variables_has_its_own_optimizer() -> None:
    cluster = built(Grouped())
    cluster.start()
    cluster.train(3)
    assert {name for name in cluster.values() if not name.startswith("ps_train")} == {
        "global_step",
        "w",
        "w/Momentum",
        "ads",
        "ads/Adam",
        "ads/Adam_1",
        "ads/beta1_power",
        "ads/beta2_power",
    }
    np.testing.assert_allclose(cluster.values()["ads/beta1_power"], 0.9**4, rtol=1e-5)


def test_a_variable_that_no_group_is_for_is_named() -> None:
    class Incomplete(Table):
        def optimizer(self, name, learning_rate):
            return {"ads": LazyAdam(0.01)}

    with pytest.raises(ModelError, match="has none for variable w, only for names that begin with ads: add one"):
        built(Incomplete())
