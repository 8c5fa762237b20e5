"""Displays show nothing by themselves, and together what the page must know."""

from __future__ import annotations

import json

from ps_train.base.gauge import Gauge
from ps_train.observe.status.display import Display, Displays


class Restarts(Display):
    gauges = (Gauge("restarts", "Restarts", "Restarts of the job.", "{restarts}"), Gauge("hidden"))
    columns = (Gauge("rack", "Rack"),)


def test_a_display_shows_nothing_unless_it_says_so() -> None:
    nothing = Display()
    assert nothing.values({}, 0.0) == nothing.of_worker("worker:0", None, "training") == {}
    assert [*nothing.gauges, *nothing.columns, *nothing.processes, *nothing.exempt] == []


def test_displays_are_found_by_their_class_and_keep_their_order() -> None:
    first, second = Restarts(), Display()
    displays = Displays([second, first])
    assert displays.of(Restarts) == [first] and displays.of(Display) == [second, first]
    assert [gauge.key for gauge in displays.every("gauges")] == ["restarts", "hidden"]


def test_the_page_knows_what_has_a_label() -> None:
    described = Displays([Restarts()]).described()
    assert json.loads(json.dumps(described)) == described
    assert [gauge["key"] for gauge in described["gauges"]] == ["restarts"]
    assert described["columns"][0]["label"] == "Rack" and described["processes"] == []
    assert sorted(described["gauges"][0]) == ["key", "label", "meaning", "text"]
