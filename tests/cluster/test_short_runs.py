"""At the end nobody hangs; `python -m tests.trials short_runs` makes 200 such runs in a row."""

from __future__ import annotations

import pytest

from tests.support.long import long
from tests.trials.short_runs import Run, play

RUNS, SHARES = 12, 2


@pytest.mark.parametrize("share", [*map(long, range(SHARES))])
def test_short_runs_all_end_at_exactly_max_steps_or_with_their_input(share: int) -> None:
    for seed in range(share, RUNS, SHARES):
        try:
            play(seed)
        except BaseException as error:
            raise AssertionError(f"run {seed}: {vars(Run(seed))}") from error
