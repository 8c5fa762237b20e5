"""The divisor of the first updates' learning rate."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.engine.step.parts.warm_up import WarmUp


@pytest.mark.parametrize(("count", "share"), [(0, 0.25), (1, 0.5), (2, 0.75), (3, 1.0), (4, 1.0), (10**12, 1.0)])
def test_the_rate_grows_evenly_and_is_whole_at_the_last_step(count: int, share: float) -> None:
    divisor = WarmUp(4).divisor(np.float32(32), np.int64(count))  # type: ignore[arg-type]
    np.testing.assert_allclose(1 / np.asarray(divisor), share, rtol=1e-6)
