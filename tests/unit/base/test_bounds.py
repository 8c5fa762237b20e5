"""A number, or two bounds of one that follows a measurement."""

from __future__ import annotations

import pytest

from ps_train.base.bounds import Bounds


@pytest.mark.parametrize(
    ("value", "bounds"), [(7, (7, 7)), ("7", (7, 7)), ("0..8", (0, 8)), ("8..8", (8, 8)), ("9..8", (9, 8))]
)
def test_a_number_or_two_bounds_are_read(value: int | str, bounds: tuple[int, int]) -> None:
    found = Bounds.parse(value)
    assert found == bounds and found.is_range == (bounds[0] < bounds[1])


@pytest.mark.parametrize("value", [-1, "", "a", "1.5", "1..", "..2", "1..2..3", "1 .. 2", "1" * 19, "1.." + "9" * 10])
def test_other_texts_are_refused(value: int | str) -> None:
    with pytest.raises(ValueError):
        Bounds.parse(value)


def test_a_subclass_reads_its_own_kind() -> None:
    class Sizes(Bounds):
        """Bounds of a size."""

    assert type(Sizes.parse("1..2")) is Sizes
