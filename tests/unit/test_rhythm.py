"""How long bursts and runs are."""

from __future__ import annotations

import pytest

from ps_train.roles.rhythm import BURST_SECS, RUN_SECS, Rhythm, run_lengths


def after(rhythm: Rhythm, step_secs: float, bursts: int = 20) -> Rhythm:
    for _ in range(bursts):
        rhythm.took(rhythm.burst(), rhythm.burst() * step_secs)
    return rhythm


def test_the_first_burst_is_one_step() -> None:
    assert Rhythm(8).burst() == 1


def test_fast_steps_make_bursts_longer_twofold_at_most() -> None:
    rhythm = Rhythm()
    for expected in (2, 4, 8, 16):
        rhythm.took(rhythm.burst(), 1e-5)
        assert rhythm.burst() == expected


def test_bursts_settle_at_the_time_that_a_burst_should_take() -> None:
    assert after(Rhythm(), 0.0011).burst() * 0.0011 == pytest.approx(BURST_SECS, rel=0.02)


def test_steps_that_become_slow_make_bursts_shorter_at_once() -> None:
    rhythm = after(Rhythm(), BURST_SECS / 100)
    rhythm.took(100, 100 * BURST_SECS / 5)
    assert rhythm.burst() == 5


def test_a_burst_is_never_without_steps() -> None:
    rhythm = Rhythm(8)
    rhythm.took(1, 60.0)
    assert rhythm.burst() == 1


def test_a_burst_that_took_no_time_is_no_trouble() -> None:
    rhythm = Rhythm(8)
    rhythm.took(1, 0.0)
    assert rhythm.burst() == 2


def test_lengths_of_runs() -> None:
    assert run_lengths(1, fixed=False) == run_lengths(1, fixed=True) == [1]
    assert run_lengths(8, fixed=False) == [8, 4, 2, 1]
    assert run_lengths(6, fixed=True) == [6, 1]


def test_runs_are_as_long_as_the_loop_may_be_deaf() -> None:
    assert after(Rhythm(8), RUN_SECS / 100).run(50) == 8
    assert after(Rhythm(8), RUN_SECS / 5).run(50) == 4
    assert after(Rhythm(8), RUN_SECS / 1.5).run(50) == 1


def test_runs_become_shorter_when_steps_become_slow() -> None:
    rhythm = after(Rhythm(8), RUN_SECS / 100)
    after(rhythm, RUN_SECS, bursts=5)
    assert rhythm.run(50) == 1


def test_one_slow_burst_says_nothing_of_runs_since_a_graph_may_have_been_prepared() -> None:
    rhythm = after(Rhythm(8), RUN_SECS / 100)
    rhythm.took(9, 2.0)
    assert rhythm.run(50) == 8


def test_no_run_is_longer_than_what_is_left() -> None:
    rhythm = after(Rhythm(8), RUN_SECS / 100)
    assert [rhythm.run(left) for left in (9, 8, 7, 3, 1)] == [8, 8, 4, 2, 1]


def test_a_run_of_a_given_length_is_of_that_length_however_slow_steps_are() -> None:
    rhythm = Rhythm(6, fixed=True)
    assert rhythm.run(20) == 6 and rhythm.run(5) == 1
    assert after(rhythm, 1.0).run(20) == 6


def test_a_burst_has_a_run_of_a_given_length_even_where_it_takes_longer_than_a_burst_should() -> None:
    assert Rhythm(16, fixed=True).burst() == 17
    assert after(Rhythm(16, fixed=True), BURST_SECS / 5).burst() == 17
    assert after(Rhythm(16, fixed=True), BURST_SECS / 60).burst() == 49
    assert after(Rhythm(1, fixed=True), BURST_SECS / 5).burst() == 5


def test_runs_may_last_as_long_as_a_burst_where_pulls_are_fetched_ahead() -> None:
    rhythm = after(Rhythm(16, ahead=True), BURST_SECS / 18)
    assert rhythm.burst() == 17 and rhythm.run(16) == 16


def test_a_burst_is_some_whole_runs_and_one_step() -> None:
    rhythm = after(Rhythm(8), BURST_SECS / 60)
    assert rhythm.burst() == 57
