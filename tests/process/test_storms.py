"""Some storms; `python -m tests.trials storms` makes as many as you like."""

from __future__ import annotations

import pathlib

import pytest

from tests.support.long import long
from tests.support.machine.processes import Processes
from tests.trials.storms.storm import Storm
from tests.trials.storms.weather import weather


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [4, long(0), long(1), long(6), long(8)])
def test_whatever_is_killed_frozen_moved_or_stopped_the_job_ends_as_its_mode_promises(
    processes: Processes, tmp_path: pathlib.Path, seed: int
) -> None:
    weather(Storm.of(seed), processes, tmp_path / "logs")
