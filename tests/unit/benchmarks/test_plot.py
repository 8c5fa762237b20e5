"""Plots as SVG."""

from __future__ import annotations

import xml.etree.ElementTree

import pytest

from benchmarks.plot import bars, curves
from benchmarks.summary import Spread


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
