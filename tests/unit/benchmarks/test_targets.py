"""Targets of speed."""

from __future__ import annotations

from benchmarks.targets import judge


def test_targets_take_the_best_single_process_and_count_options():
    rates = {"ours-async:steps_per_run=8": [50.0], "single-1x2": [80.0], "single-2x1": [100.0], "pss-1": [10.0]}
    judged = {one.target.against: one for one in judge(rates, "small")}
    assert judged["single-1x2", "single-2x1"].ratio == 0.5
    assert judged["single-1x2", "single-2x1"].against == "single-2x1"
    assert judged["single-1x2", "single-2x1"].cells()[-1] == "no"
    assert judged["pss-1",].cells()[-1] == "yes"
    assert not judge(rates, "wide"), "nobody to compare with"
