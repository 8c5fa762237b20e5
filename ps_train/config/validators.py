"""Tests of single values, each with the words for what it allows.

check = optional(at_least(1))
check.holds(0), check.allowed          # False, "a number of at least 1"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Check:
    """A test of one value, and the words for what it allows."""

    allowed: str
    holds: Callable[[Any], bool]


def at_least(low: float) -> Check:
    return Check(f"a number of at least {low}", lambda value: value >= low)


def above(low: float) -> Check:
    return Check(f"a number above {low}", lambda value: value > low)


def one_of(choices: tuple[str | int, ...]) -> Check:
    return Check("one of " + ", ".join(map(str, choices)), lambda value: value in choices)


def optional(check: Check) -> Check:
    return Check(check.allowed, lambda value: value is None or check.holds(value))


def integer_or(word: str) -> Check:
    """Of a text: a whole number of at least 1, or that word."""
    return Check(f"a whole number of at least 1, or {word}", lambda value: value == word or _is_count(value))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) >= 1


anything = Check("any value", lambda value: True)


def is_number(text: str) -> bool:
    """Whether int() takes it and it is not negative; nine digits are enough for ports and indices."""
    return text.isascii() and text.isdigit() and len(text) <= 9
