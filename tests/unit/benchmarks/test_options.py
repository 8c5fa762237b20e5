"""The options of the benchmarks."""

from __future__ import annotations

from benchmarks import options


def test_quick_is_short_but_can_be_overruled():
    quick = options.parse(["--quick", "--repeats=4"])
    assert (quick.repeats, quick.workloads, quick.check) == (4, ["small"], False)
    assert options.parse(["--quick", "--check"]).check
    assert options.parse([]).repeats == 5


def test_a_start_up_is_of_its_own_workload_unless_another_is_named():
    assert options.parse(["startup"]).workloads == ["starting"]
    assert options.parse(["startup", "--workloads=small"]).workloads == ["small"]
    assert options.parse([]).workloads == ["small", "wide", "large"]
