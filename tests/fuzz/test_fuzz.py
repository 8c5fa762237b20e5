"""Every parser of input from others, with some hundreds of wrong inputs; `python -m tests.fuzz` makes 10,000 each."""

from __future__ import annotations

import pytest

from tests.fuzz.parsers import PARSERS
from tests.fuzz.running import run_cases

CASES = 150


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_gives_a_value_or_its_error_for_any_input(name: str) -> None:
    run_cases(PARSERS[name], CASES, random_seed=1)
