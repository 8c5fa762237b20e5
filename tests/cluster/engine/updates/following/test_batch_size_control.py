"""The learning rate of a batch size that follows the network; `test_batch_sizes.py` has the sizes themselves."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train import Job
from ps_train.engine.step.parts.following import ScaledRate


@pytest.mark.parametrize(
    ("fields", "replicas", "examples", "divisor"),
    [
        ({"scale_learning_rate": "linear"}, 4, 32.0, 0.25),
        ({"scale_learning_rate": "sqrt"}, 4, 32.0, 0.5),
        ({"scale_learning_rate": "linear", "accumulate": 2}, 4, 32.0, 0.5),
        ({"scale_learning_rate": "linear", "update": "sync"}, 4, 64.0, 0.5),
        ({"scale_learning_rate": "linear", "update": "sync", "backup_workers": 2}, 4, 64.0, 0.25),
        ({"scale_learning_rate": "linear"}, 4, 3.0, 1.0),  # the last batch of an epoch
        ({"scale_learning_rate": "linear"}, 4, 0.0, 1.0),
    ],
)
def test_the_divisor_of_the_learning_rate(fields: dict, replicas: int, examples: float, divisor: float) -> None:
    found = ScaledRate(Job(batch_size="8..64", **fields), replicas).divisor(np.float32(examples), 0)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.asarray(found), divisor)
