"""Checks of single values, also of values of another type."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.config.validators import Check, above, at_least, integer_or, one_of, optional


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (at_least(1), [1, 2.5], [0, "1", None]),
        (above(0), [0.1], [0, "x"]),
        (one_of(("a", 2)), ["a", 2], ["b", None]),
        (optional(at_least(1)), [None, 1], [0, "1"]),
        (integer_or("auto"), ["auto", "4"], ["0", "-1", "4.0", "²", 4, None]),
    ],
)
def test_a_value_is_accepted_or_not_whatever_its_type(check: Check, good: list[Any], bad: list[Any]) -> None:
    assert all(check.accepts(value) for value in good)
    assert not any(check.accepts(value) for value in bad)
