"""The progress line of a terminal: it never wraps, and shows what matters most."""

from __future__ import annotations

import re

import pytest

from ps_train.base.console import Progress, fit


def line(width, **values):
    usual = {"step": 500, "max_steps": 2000, "loss": 0.25, "steps_per_sec": 800.0, "examples_per_sec": 25_600.0}
    return fit(Progress(**{**usual, "staleness": 0.76, **values}).text(), width)


@pytest.mark.parametrize("width", [*range(1, 60), 80, 100, 132, 500])
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"max_steps": None},
        {"loss": None, "steps_per_sec": 0.0},
        {"step": 9_999_999, "max_steps": 10**8, "loss": 1e30},
    ],
)
def test_it_is_narrower_than_the_terminal(width, values):
    assert 0 < len(line(width, **values)) <= max(1, width - 1)


def test_without_a_known_end_there_is_no_bar_and_parts_are_left_out_as_ever():
    assert line(500, max_steps=None) == "step 500  loss 0.2500  800 global steps/s  25600 examples/s  staleness 0.76"
    assert line(50, max_steps=None) == "step 500  loss 0.2500  25600 examples/s"


def test_80_columns_show_a_bar_and_what_matters_most_in_full():
    shown = line(80)
    assert re.fullmatch(r"\[#+-+\] step 500/2000  loss 0\.2500  25600 examples/s  ETA 0:02", shown)


def test_40_columns_show_the_same_in_short():
    assert line(40) == "[#---] 500/2000 loss 0.25 26k ex/s 0:02"


def test_a_wide_terminal_shows_the_rest_too():
    shown = line(132)
    for part in (
        "step 500/2000",
        "loss 0.2500",
        "800 global steps/s",
        "25600 examples/s",
        "staleness 0.76",
        "ETA 0:02",
    ):
        assert part in shown


@pytest.mark.parametrize("width", [40, 80, 132])
def test_the_bar_is_as_full_as_the_job_is_done(width):
    for step in (0, 500, 1000, 2000):
        bar = re.match(r"\[(#*)(-*)\] ", line(width, step=step))
        assert len(bar[1]) == int(step / 2000 * (len(bar[1]) + len(bar[2])))


def test_a_step_beyond_the_last_one_fills_the_bar():
    assert line(80, step=2003).startswith("[####") and "-]" not in line(80, step=2003)


def test_what_is_no_progress_line_is_only_cut():
    assert fit("step 1", 80) == "step 1"
    assert fit("waiting for the ps", 8) == "waiting"
