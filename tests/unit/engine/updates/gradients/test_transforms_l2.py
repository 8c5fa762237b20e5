"""The L2 term is added before anything is rounded."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.updates.gradients.transforms import l2
from tests.support.graphs.gradients import NARROW, assert_equal_but_for_rounding, transformed, vector


@pytest.mark.parametrize("dtype", NARROW)
def test_l2_is_added_before_anything_is_rounded(dtype: tf.DType) -> None:
    """A strength of 1e-8 is zero in float16, but 1e-8 times 30,000 is not."""
    found = transformed(l2(1e-8), {"w": vector([0.0], dtype)}, {"w": vector([30_000.0], dtype)})["w"]
    assert_equal_but_for_rounding(found, vector([30_000.0], dtype).astype(np.float64) * 1e-8)
