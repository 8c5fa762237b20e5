"""Curves in bounded memory."""

from __future__ import annotations

import itertools

from ps_train.observe.status.board import History


def test_a_short_run_keeps_every_point():
    history = History()
    for step in range(999):
        history.add({"step": step})
    assert [point["step"] for point in history.points()] == list(range(999))


def test_a_long_run_keeps_its_whole_length_evenly():
    history = History()
    for step in range(100_000):
        history.add({"step": step})
    steps = [point["step"] for point in history.points()]
    assert 500 <= len(steps) <= 1000
    assert steps[0] == 0
    assert steps[-1] >= 99_700
    assert len({after - before for before, after in itertools.pairwise(steps)}) == 1


def test_a_run_that_goes_back_keeps_both_parts():
    history = History()
    for step in (100, 200, 150):
        history.add({"step": step})
    assert [point["step"] for point in history.points()] == [100, 200, 150]
