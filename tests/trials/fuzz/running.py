"""Runs a parser on many inputs; the first input with another result than a value or an allowed error fails."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from tests.trials.fuzz.parsers import Parser

MOST_SECS = 5.0
"""Limit of one input: none may make a parser hang."""


def check(parser: Parser, value: Any) -> None:
    """Calls a parser; its error must be an allowed one, with a text of one printable line."""
    began = time.thread_time()
    try:
        parser.call(value)
    except parser.errors as error:
        text = str(error)
        assert text.isprintable() and len(text) < 2000, f"not one short line: {text!r}"
    spent = time.thread_time() - began
    assert spent < MOST_SECS, f"took {spent:.1f}s of CPU"


def run_cases(parser: Parser, cases: int, random_seed: int | None = None) -> int:
    """Checks many inputs; returns how many.  The same seed makes the same inputs."""
    count = 0

    def one(value: Any) -> None:
        nonlocal count
        count += 1
        check(parser, value)

    test = given(parser.inputs)(one)
    if random_seed is not None:
        test = seed(random_seed)(test)
    settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.normal,
    )(test)()
    return count
