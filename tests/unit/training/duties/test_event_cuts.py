"""Cuts by event time on the status page."""

from __future__ import annotations

import pytest

from ps_train.base.untrusted import UntrustedError
from ps_train.training.duties.event_cuts import CutDisplay


def test_late_rows_are_counted_over_restarts_and_the_next_cut_is_the_newest():
    found = CutDisplay()
    found.measured("worker:0", {"lag": {}})
    assert found.values({"stream": {}}, 0.0) == {"stream": {"late_rows": None, "next_cut": None}}
    assert found.values({"stream": None}, 0.0) == {}, "there is no such data"
    for task, late, cut in [("worker:0", 3, 0), ("worker:1", 4, 7000), ("worker:0", 5, 7000), ("worker:1", 1, 0)]:
        found.measured(task, {"late_rows": late, "next_cut_ms": cut})
    # worker:1 was started again
    assert found.values({"stream": {"lag": 5.0}}, 0.0) == {"stream": {"lag": 5.0, "late_rows": 10.0, "next_cut": 7.0}}


@pytest.mark.parametrize("lie", [{"late_rows": -1, "next_cut_ms": 5}, {"next_cut_ms": "now"}])
def test_cuts_of_another_form_are_refused(lie):
    with pytest.raises(UntrustedError):
        CutDisplay().measured("worker:0", lie)
