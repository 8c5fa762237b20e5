"""Medians, ratios, and the agreement of losses."""

from __future__ import annotations

import math

import pytest

from benchmarks.summary import Spread, best_of, disagreeing, ratio_of_medians, short, spread_of


def test_a_spread_is_the_median_with_the_lowest_and_the_highest():
    assert spread_of([5.0, 1.0, 3.0, 100.0, 2.0]) == Spread(3.0, 1.0, 100.0)
    assert spread_of([1.0, 2.0]).median == 1.5


def test_a_ratio_is_one_of_medians_and_none_where_one_is_missing():
    assert ratio_of_medians([8.0, 2.0, 400.0], [2.0]) == 4.0
    assert ratio_of_medians([], [2.0]) is None
    assert ratio_of_medians([1.0], []) is None


def test_the_best_is_by_median_not_by_luck():
    assert best_of({"lucky": [1.0, 1.0, 9.0], "steady": [2.0, 2.0, 2.0]}, ("lucky", "steady", "absent")) == "steady"
    assert best_of({"lucky": []}, ("lucky",)) is None


def test_a_loss_far_from_the_median_disagrees_and_so_does_nan():
    losses = {"a": 1.0, "b": 1.05, "c": 1.2, "d": math.nan}
    assert disagreeing(losses, 0.1) == ["c", "d"]
    assert disagreeing(losses, 0.5) == ["d"]
    assert disagreeing({"a": math.inf}, 0.1) == ["a"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.01234, "0.0123"), (1.2345, "1.23"), (12.345, "12.3"), (12345.6, "12346")]
)
def test_numbers_are_shown_with_the_digits_that_count(value: float, text: str):
    assert short(value) == text
