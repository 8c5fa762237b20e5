"""The cost of an open status page, from the rates of pairs of windows."""

from __future__ import annotations

import pytest

from benchmarks.status_page import cost, report


def test_the_cost_is_the_median_over_pairs():
    share, error = cost({"closed": [100.0, 50.0, 200.0], "open": [99.0, 49.0, 100.0]})
    assert share == pytest.approx(0.02)
    assert error > 0


def test_windows_that_are_alike_cost_nothing():
    assert cost({"closed": [100.0] * 5, "open": [100.0] * 5}) == (0.0, 0.0)


def test_the_report_says_what_was_compared():
    machine = {"cpu": "a CPU", "cores": 2, "memory_gib": 24, "kernel": "6", "python": "3.11", "tensorflow": "2.21"}
    rates = {"small": {"closed": [100.0, 102.0], "open": [99.0, 101.0]}}
    record = {
        "date": "2026-01-01",
        "secs": 5.0,
        "machine": machine,
        "rates": rates,
        "load_before": 0.0,
        "load_after": 1.0,
    }
    text = report(record)
    assert "101.0 steps/s with the page closed, 100.0 with it open, in 2 pairs" in text
