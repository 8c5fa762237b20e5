"""Fields about the training: values at their bounds, and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.config.training_fields import OPTIMIZERS


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("optimizer", [None, *OPTIMIZERS], ["", "adams"]),
        ("learning_rate", [None, 1e-9], [0, -0.1]),
        ("batch_size", [1, "64..512"], [0, "64..", "512..64", "64..65"]),
        ("epochs", [0, 1], [-1]),
        ("shard_examples", [None], [0]),
        ("max_steps", [1], [0]),
        ("accumulate", [1, 1_000_000], [0, 1_000_001]),
        ("steps_per_run", ["auto", "1"], ["0", "x"]),
        ("prefetch_pulls", [0, 1], [2, -1]),
        ("compute_dtype", ["float32", "bfloat16", "float16"], ["float64"]),
        ("update", ["async", "bounded", "sync"], ["asynchronous"]),
        ("sharding", ["static", "dynamic"], ["none"]),
        ("max_bad_lines", [0], [-1]),
    ],
)
def test_values_are_checked_at_their_bounds(name: str, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        assert getattr(Job(**{name: value}), name) == value
    for value in wrong:
        with pytest.raises(ConfigError, match=name):
            Job(**{name: value})


def test_batches_of_two_bounds_have_a_least_size() -> None:
    assert Job(batch_size="64..512").min_batch_size == 64 and Job(batch_size=32).min_batch_size == 32


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"compute_dtype": "float16"}, "scales_loss", True),
        ({"compute_dtype": "bfloat16"}, "scales_loss", False),
        ({"compute_dtype": "bfloat16"}, "is_mixed", True),
        ({}, "is_mixed", False),
        ({"sharding": "dynamic"}, "is_dynamic", True),
        ({}, "is_dynamic", False),
    ],
)
def test_what_follows_from_a_value(fields: dict[str, Any], name: str, value: bool) -> None:
    assert getattr(Job(**fields), name) is value
