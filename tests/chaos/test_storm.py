"""Some storms; `tests/chaos/run` makes as many as you like."""

from __future__ import annotations

import pytest

from tests.chaos.storm import Storm, weather
from tests.support.long import long
from tests.support.processes import Processes


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1, long(2), 4])
def test_whatever_is_killed_frozen_or_stopped_the_job_ends_at_exactly_max_steps(
    processes: Processes, seed: int
) -> None:
    weather(Storm.of(seed), processes)


def test_a_seed_decides_everything() -> None:
    assert Storm.of(5) == Storm.of(5) != Storm.of(8)
