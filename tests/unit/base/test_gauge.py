"""Values that features show."""

from __future__ import annotations

from ps_train.base.gauge import Gauge


def test_a_value_is_found_in_its_section():
    gauge = Gauge("stream.growth")
    assert gauge.of({"stream": {"growth": 1.5}}) == 1.5
    assert [gauge.of(status) for status in ({}, {"stream": None}, {"stream": {}})] == [None] * 3


def test_a_number_that_stands_for_a_text_is_shown_as_it():
    assert Gauge("push_codec", names=("none", "int8")).shown(1) == "int8"
    assert Gauge("batch_size").shown(64.0) == 64
