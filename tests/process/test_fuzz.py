"""Every parser of foreign input, with some dozens of wrong inputs; `python -m tests.trials fuzz` makes 10,000."""

from __future__ import annotations

import pytest

from tests.trials.fuzz import checkpoints
from tests.trials.fuzz.parsers import PARSERS
from tests.trials.fuzz.running import run_cases

CASES = 60


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_gives_a_value_or_its_error_for_any_input(name: str) -> None:
    run_cases(PARSERS[name], CASES, random_seed=1)


@pytest.mark.long
@pytest.mark.usual(1)
@pytest.mark.parametrize("kind", checkpoints.KINDS)
def test_a_damaged_checkpoint_gives_an_error_or_the_saved_values(kind: str) -> None:
    assert checkpoints.run_cases(kind, 3, seed=1) == (3, [])


@pytest.mark.long
def test_an_index_whose_sizes_are_wrong_is_a_damaged_checkpoint() -> None:
    assert checkpoints.run_cases("checkpoint_index", 1, seed=9944) == (1, [])  # TensorFlow asked for too much memory
