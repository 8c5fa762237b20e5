"""Bound on the speed of one worker, from measured costs."""

from __future__ import annotations

import pytest

from benchmarks.calibration import Calibration, bound, overhead_secs


def test_the_bound_falls_with_bytes_and_with_runs():
    found = Calibration(memory=1e-10, socket=3e-10, run=1e-3, small_tensor=1e-4, byte=1e-9)
    assert overhead_secs(found, 1_000_000) == pytest.approx(1e-3 + 2e-4 + 8e6 * 4e-10)
    assert bound(found, compute_secs=overhead_secs(found, 1000), parameters=1000) == pytest.approx(0.5)
    assert bound(found, 1e-3, parameters=1000) > bound(found, 1e-3, parameters=1_000_000)
