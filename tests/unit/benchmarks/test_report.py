"""Medians, ratios, agreement of losses, targets, tables, plots: the pure parts of the benchmarks."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree

import pytest

from benchmarks import machine, report, table
from benchmarks.calibration import Calibration, bound, overhead_secs
from benchmarks.plot import bars, curves
from benchmarks.summary import Spread, best_of, disagreeing, ratio_of_medians, short, spread_of
from benchmarks.targets import judge


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


def test_a_table_has_a_rule_and_equal_columns():
    lines = table.markdown(["who", "n"], [["a", "1"], ["longer", "22"]]).splitlines()
    assert [line.count("|") for line in lines] == [3, 3, 3, 3]
    assert len({len(line) for line in lines}) == 1
    assert set(lines[1]) == {"|", " ", "-", ":"}


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="1 cells under 2 heads"):
        table.markdown(["who", "n"], [["a"]])


def elements(svg: str, name: str) -> list[xml.etree.ElementTree.Element]:
    return xml.etree.ElementTree.fromstring(svg).findall(f"{{http://www.w3.org/2000/svg}}{name}")


def test_bars_are_as_long_as_their_medians():
    svg = bars("t", {"small": {"ours-async": Spread(4.0, 3.0, 5.0), "classic": Spread(1.0, 1.0, 1.0)}})
    widths = [float(one.get("width", "0")) for one in elements(svg, "rect")[1:]]
    assert widths[0] == pytest.approx(4 * widths[1])


def test_names_in_a_plot_are_escaped():
    svg = bars("a < b & c", {"<w>": {"ours-async:X=1&2": Spread(1.0, 1.0, 1.0)}})
    assert "a < b & c" in [one.text for one in elements(svg, "text")]


def test_a_model_curve_is_dashed_and_has_all_its_points():
    svg = curves("t", "workers", {"1 ps": [(1.0, 10.0), (2.0, 19.0)], "1 ps, model": [(1.0, 10.0), (2.0, 20.0)]})
    measured, model = elements(svg, "polyline")
    assert measured.get("stroke-dasharray") is None and model.get("stroke-dasharray")
    assert len((model.get("points") or "").split()) == 2


def test_targets_take_the_best_single_process_and_count_options():
    rates = {"ours-async:steps_per_run=8": [50.0], "single-1x2": [80.0], "single-2x1": [100.0], "pss-1": [10.0]}
    judged = {one.target.against: one for one in judge(rates, "small")}
    assert judged["single-1x2", "single-2x1"].ratio == 0.5
    assert judged["single-1x2", "single-2x1"].against == "single-2x1"
    assert judged["single-1x2", "single-2x1"].cells()[-1] == "no"
    assert judged["pss-1",].cells()[-1] == "yes"
    assert not judge(rates, "wide"), "nobody to compare with"


def test_the_bound_falls_with_bytes_and_with_runs():
    found = Calibration(memory=1e-10, socket=3e-10, run=1e-3, small_tensor=1e-4, byte=1e-9)
    assert overhead_secs(found, 1_000_000) == pytest.approx(1e-3 + 2e-4 + 8e6 * 4e-10)
    assert bound(found, compute_secs=overhead_secs(found, 1000), parameters=1000) == pytest.approx(0.5)
    assert bound(found, 1e-3, parameters=1000) > bound(found, 1e-3, parameters=1_000_000)


def record(losses: dict[str, float]) -> dict:
    run = {
        "steps_per_sec": 1.0,
        "examples_per_sec": 64.0,
        "cpu_secs": {"ps": 0.1, "workers": 0.2},
        "ps_peak_bytes": 1e6,
    }
    slower = {**run, "examples_per_sec": 16.0}
    workload = {
        "about": "x",
        "parameters": 10,
        "batch_size": 64,
        "check_steps": 7,
        "tolerance": 0.1,
        "updates": {"ours-async": "async", "classic-async": "async", "ddp": "sync"},
        "runs": {"ours-async": [run], "classic-async": [slower], "ddp": []},
        "losses": losses,
        "failures": {"ddp": "worker:0 ended; its last lines:\n  on its way\n  boom"},
        "skipped": {},
    }
    machine = {"cpu": "c", "cores": 2, "memory_gib": 1, "kernel": "6", "python": "3", "tensorflow": "2"}
    options = {"repeats": 1, "secs": 1.0, "num_ps": 1, "num_workers": 2}
    return {
        "date": "2000-01-01",
        "machine": machine,
        "load_before": 0.0,
        "options": options,
        "workloads": {"small": workload},
    }


def test_a_report_shows_ratios_to_the_classic_recipe_failures_and_targets():
    text = report.markdown_of(record({"ours-async": 1.0, "classic-async": 1.0}))
    ours = next(line for line in text.splitlines() if line.startswith("| ours-async"))
    assert "4.00" in ours
    assert "FAILED: ddp: worker:0 ended; its last lines: boom" in text
    assert "within 10% of their median" in text
    assert "| small    | ours-async | classic-async |  4.00 |   4.00 |     yes |" in text


def test_a_report_names_the_pytorch_that_was_measured():
    whole = record({})
    assert "TensorFlow 2; load average before: 0.0" in report.markdown_of(whole)
    whole["machine"]["pytorch"] = "PyTorch 1.2 with MKL"
    assert "TensorFlow 2, PyTorch 1.2 with MKL; load average" in report.markdown_of(whole)


def test_where_there_is_no_pytorch_nothing_is_said_of_it(tmp_path):
    assert machine.pytorch(str(tmp_path / "none")) == ""
    (tmp_path / "torch.py").write_text("raise ImportError")
    assert machine.pytorch(_python_that_finds(tmp_path)) == ""
    (tmp_path / "torch.py").write_text(
        "import types\n__version__ = '1.2'\n"
        "backends = types.SimpleNamespace(mkl=types.SimpleNamespace(is_available=lambda: False))\n"
    )
    assert machine.pytorch(_python_that_finds(tmp_path)) == "PyTorch 1.2 without MKL"


def _python_that_finds(directory):
    program = directory / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={directory} exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_unequal_losses_are_an_error_in_the_report():
    text = report.markdown_of(record({"ours-async": 1.0, "classic-async": 2.0}))
    assert "ERROR: after 7 async steps the test losses of ours-async, classic-async" in text


def test_a_comparison_that_was_ended_early_says_how_many_rounds_it_made():
    whole = record({})
    whole["options"]["repeats"] = 5
    whole["workloads"]["small"]["runs"]["classic-async"] *= 2
    assert "1 to 2 interleaved repeats" in report.markdown_of(whole)
