"""Fields about processes: names of racks, ports, and the number of ps."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.cluster_fields import asked_ps, is_rack
from ps_train.config.job import Job


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", True),
        ("Zone-1_b.c", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("", False),
        ("a b", False),
        ("a/b", False),
    ],
)
def test_names_of_racks(text: str, found: bool) -> None:
    assert is_rack(text) is found
    if not found and text:
        with pytest.raises(ConfigError, match="rack"):
            Job(rack=text)


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ({}, "default"), ({"num_ps": None}, "default"), ({"num_ps": 0}, 0), ({"num_ps": 3}, 3),
        ({"ps_on_workers": True, "num_ps": 3}, 0), ({"ps_on_workers": False}, "default"),
    ],
)  # fmt: skip
def test_the_number_of_ps_that_flags_ask_for(given: dict[str, Any], number: Any) -> None:
    assert asked_ps(given, "default") == number


def test_no_ps_means_ps_on_the_workers() -> None:
    assert Job(num_ps=0).ps_on_workers and not Job(num_ps=1).ps_on_workers and not Job().ps_on_workers


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("port", [1, 65535], [0, 65536]),
        ("rack_port", [0, 65535], [-1, 65536]),
        ("min_workers", [1], [0]),
        ("max_workers", [0], [-1]),
        ("num_workers", [1, 60_000], [0, 60_001]),
        ("startup_timeout_secs", [0.1], [0, -1]),
        ("k8s_rack_label", ["zone", "a.b/c-d"], ["", "-a", "a/b/c", "A.b/c"]),
        ("ps_weights", ["", "1,1,0.5", "auto"], ["1,,2", "-1,1", "x"]),
    ],
)
def test_values_are_checked_at_their_bounds(name: str, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        assert getattr(Job(**{name: value}), name) == value
    for value in wrong:
        with pytest.raises(ConfigError, match=name):
            Job(**{name: value})
