"""Lengths of bursts and of calls."""

from __future__ import annotations

import pytest

from ps_train.config.job import Job
from ps_train.training.loop.burst_size import BURST_SECS, BurstScheduler, call_lengths, steps_to_pay


def burst(rhythm: BurstScheduler, step_secs: float) -> list[int]:
    """Makes one as the loop does; the lengths of its runs."""
    count, runs = rhythm.next_burst().steps, []
    while sum(runs) < count - 1:
        runs.append(rhythm.next_call_length(count - 1 - sum(runs)) or 1)
    rhythm.record(count, count * step_secs)
    return [*runs, 1]


def after(rhythm: BurstScheduler, step_secs: float, bursts: int = 20) -> BurstScheduler:
    for _ in range(bursts):
        burst(rhythm, step_secs)
    return rhythm


def test_the_first_steps_are_made_one_by_one() -> None:
    rhythm = BurstScheduler(8)
    assert [burst(rhythm, 1e-3) for _ in range(4)] == [[1]] * 4
    assert burst(rhythm, 1e-3) == [8, 8, 8, 1]


def test_what_was_prepared_when_it_was_run_says_nothing_of_how_long_steps_take() -> None:
    rhythm = BurstScheduler(8)
    burst(rhythm, 5.0)
    after(rhythm, 1e-3, bursts=3)
    assert burst(rhythm, 5.0) == [8, 8, 8, 1]
    assert rhythm.next_burst().steps == 25


def test_bursts_become_longer_by_a_bounded_factor() -> None:
    rhythm = after(BurstScheduler(8), 0.0, bursts=4)
    assert rhythm.next_burst().steps == 25
    after(rhythm, 0.0, bursts=2)
    assert rhythm.next_burst().steps == 793


def test_bursts_settle_at_the_time_that_a_burst_should_take() -> None:
    assert after(BurstScheduler(), 0.0011).next_burst().steps * 0.0011 == pytest.approx(BURST_SECS, rel=0.02)


def test_steps_that_become_slow_make_bursts_shorter_at_once() -> None:
    rhythm = after(BurstScheduler(), BURST_SECS / 100)
    rhythm.record(100, 100 * BURST_SECS / 5)
    assert rhythm.next_burst().steps == 5


def test_a_burst_is_never_without_steps() -> None:
    assert after(BurstScheduler(8), 60.0).next_burst().steps == 1


def test_lengths_of_calls() -> None:
    assert call_lengths(1) == [1]
    assert call_lengths(8) == [8, 4, 1]
    assert call_lengths(8, every=8) == [4, 1], "a burst of 8 ends with a step that runs alone"
    assert [call_lengths(8, nodes=count) for count in (6_000, 6_001, 12_001)] == [[8, 4, 1], [4, 1], [1]]


def length_of(rhythm: BurstScheduler, left: int = 50, step: int = 0) -> int:
    rhythm.next_burst(step)
    return rhythm.next_call_length(left)


def test_calls_are_no_longer_than_the_loop_may_ignore_signals() -> None:
    assert length_of(after(BurstScheduler(8), BURST_SECS / 100)) == 8
    assert length_of(after(BurstScheduler(8), BURST_SECS / 6)) == 4


def test_nothing_is_prepared_for_steps_of_which_few_would_share_a_call() -> None:
    assert length_of(after(BurstScheduler(8), BURST_SECS / 5)) == 0
    assert length_of(after(BurstScheduler(1), BURST_SECS / 5)) == 0
    assert length_of(after(BurstScheduler(1), BURST_SECS / 6)) == 1


def test_calls_become_shorter_when_steps_become_slow() -> None:
    rhythm = after(BurstScheduler(8), BURST_SECS / 100)
    after(rhythm, BURST_SECS, bursts=5)
    assert length_of(rhythm) == 0


def test_one_length_of_several_steps_is_prepared_and_no_other_one() -> None:
    rhythm = after(BurstScheduler(8), BURST_SECS / 7.5)
    after(rhythm, BURST_SECS / 100, bursts=9)
    assert length_of(rhythm) == 4


def test_a_length_that_is_new_must_fit_for_some_time() -> None:
    rhythm = after(BurstScheduler(8), BURST_SECS / 5)
    after(rhythm, BURST_SECS / 20, bursts=2)
    assert length_of(rhythm) == 0
    after(rhythm, BURST_SECS / 20, bursts=1)
    assert length_of(rhythm) == 8
    after(rhythm, BURST_SECS / 8.5, bursts=4)
    assert length_of(rhythm) == 8


def test_no_call_is_prepared_for_the_last_steps_of_a_job() -> None:
    rhythm = after(BurstScheduler(8, last_step=1000), BURST_SECS / 100)
    assert length_of(rhythm, step=995) == 8, "it is prepared"
    late = BurstScheduler(8, last_step=24)
    for step in range(4):
        late.next_burst(step)
        late.record(1, BURST_SECS / 100)
    assert length_of(late, step=5) == 0


def test_no_call_is_prepared_that_takes_longer_to_prepare_than_it_saves() -> None:
    def length(last_step: int, replicas: int = 1) -> int:
        bursts = BurstScheduler(8, last_step=last_step, nodes=6000, replicas=replicas)
        return length_of(after(bursts, BURST_SECS / 100, bursts=200))

    assert [length(8 * 750), length(8 * 750 - 1), length(4 * 750 - 1)] == [8, 4, 1]
    assert length(8 * 750 * 3, replicas=3) == 8 and length(8 * 750 * 3 - 1, replicas=3) == 4


def steps_before_the_first_call(nodes: int, longest: int = 8, step_secs: float = BURST_SECS / 100) -> int:
    """The number of steps that are made with the hooks before the first call without them, up to 100,000."""
    bursts, made = BurstScheduler(longest, nodes=nodes), 0
    while made < 100_000 and bursts.next_call_length(max(1, bursts.next_burst().steps - 1)) == 0:
        steps = bursts.next_burst().steps
        bursts.record(steps, steps * step_secs)
        made += steps
    return made


def test_a_call_that_is_cheap_to_prepare_is_prepared_as_soon_as_steps_are_timed() -> None:
    assert steps_before_the_first_call(nodes=4500 // 8) < 10
    assert steps_before_the_first_call(nodes=4500, longest=1) < 10


@pytest.mark.parametrize("nodes, length", [(563, 8), (6000, 8), (10_500, 4), (18_000, 1), (75_000, 1)])
def test_training_waits_for_a_preparation_only_after_steps_that_would_have_saved_its_time(
    nodes: int, length: int
) -> None:
    made = steps_before_the_first_call(nodes)
    assert steps_to_pay(length, nodes) == length * nodes / 8
    assert steps_to_pay(length, nodes) <= made < steps_to_pay(length, nodes) + 101, "a burst has at most 100 steps"


def test_calls_that_pull_ahead_are_prepared_as_soon_as_steps_are_timed() -> None:
    bursts = BurstScheduler.of(Job(prefetch_pulls=1, max_steps=100_000), nodes=2000)
    assert length_of(after(bursts, BURST_SECS / 100, bursts=4)) == 16


def test_a_short_job_of_a_large_graph_prepares_nothing_but_its_first_step() -> None:
    bursts = BurstScheduler(8, last_step=24, nodes=9000)
    for step in range(24):
        bursts.next_burst(step)
        assert bursts.next_call_length(1) == 0
        bursts.record(1, BURST_SECS / 10)


def test_no_call_is_longer_than_what_is_left() -> None:
    rhythm = after(BurstScheduler(8), BURST_SECS / 100)
    assert [length_of(rhythm, left) for left in (9, 8)] == [8, 8]
    assert all(rhythm.next_call_length(left) <= left for left in (7, 6, 5, 4, 3, 2, 1) for _ in range(9))


def test_what_long_calls_leave_over_is_made_with_the_hooks() -> None:
    rhythm = after(BurstScheduler(8), BURST_SECS / 100)
    assert [rhythm.next_call_length(left) for left in (7, 6, 5, 4, 3, 2, 1)] == [0] * 7


def test_a_call_of_a_given_length_is_of_that_length_however_slow_steps_are() -> None:
    rhythm = BurstScheduler(6, fixed=True)
    assert length_of(rhythm, 20) == 6 and length_of(rhythm, 5) == 0
    assert length_of(after(rhythm, 1.0), 20) == 6


def test_a_burst_has_a_call_of_a_given_length_even_where_it_takes_longer_than_a_burst_should() -> None:
    assert BurstScheduler(16, fixed=True).next_burst().steps == 17
    assert after(BurstScheduler(16, fixed=True), BURST_SECS / 5).next_burst().steps == 17
    assert after(BurstScheduler(16, fixed=True), BURST_SECS / 60).next_burst().steps == 49
    assert after(BurstScheduler(1, fixed=True), BURST_SECS / 5).next_burst().steps == 5


def test_a_call_and_the_step_after_it_take_no_longer_than_a_burst() -> None:
    for steps, run in ((22, 16), (20, 8), (12, 8), (9, 4), (5, 4), (4, 0)):
        rhythm = after(BurstScheduler(16), BURST_SECS / (steps + 0.5))
        assert rhythm.next_call_length(rhythm.next_burst().steps - 1) == run
        assert rhythm.next_burst().steps <= steps


def test_a_burst_is_some_whole_calls_and_one_step() -> None:
    rhythm = after(BurstScheduler(8), BURST_SECS / 60)
    assert rhythm.next_burst().steps == 57


def test_a_burst_ends_where_a_checkpoint_is_due() -> None:
    rhythm = after(BurstScheduler(ends=[100]), BURST_SECS / 60)
    assert [rhythm.next_burst(step).steps for step in (0, 39, 40, 41, 99, 100, 199)] == [60, 60, 60, 59, 1, 60, 1]
    assert after(BurstScheduler(), BURST_SECS / 60).next_burst(41).steps == 60


def test_a_burst_also_ends_where_summaries_are_due() -> None:
    bursts = after(BurstScheduler(ends=[100, 30]), BURST_SECS / 60)
    assert [bursts.next_burst(step).steps for step in (0, 29, 30, 90, 95, 100, 119)] == [30, 1, 30, 10, 5, 20, 1]


def test_a_burst_that_needs_no_hooks_is_whole_calls_alone() -> None:
    rhythm = after(BurstScheduler(8, hooks_secs=1.0), BURST_SECS / 60)
    assert rhythm.next_burst(0, 0.9) == (56, False)
    assert rhythm.next_burst(0, 1.0) == (57, True)


def test_where_a_checkpoint_is_due_the_hooks_are_too() -> None:
    rhythm = after(BurstScheduler(8, ends=[100], hooks_secs=1.0), BURST_SECS / 60)
    assert [rhythm.next_burst(step, 0.0) for step in (0, 44, 60, 99)] == [
        (56, False),
        (56, True),
        (40, True),
        (1, True),
    ]


def test_a_single_step_runs_with_the_hooks() -> None:
    assert after(BurstScheduler(8, hooks_secs=1.0), 60.0).next_burst(0, 0.0) == (1, True)


def test_the_hooks_run_twice_between_two_progress_lines() -> None:
    job = Job(log_secs=0.5)
    assert BurstScheduler.of(job, every_burst_with_hooks=False).next_burst(0, 0.2).with_hooks
    rhythm = after(BurstScheduler.of(job, every_burst_with_hooks=False), BURST_SECS / 60)
    assert [rhythm.next_burst(0, secs).with_hooks for secs in (0.2, 0.25)] == [False, True]
    assert after(BurstScheduler.of(job), BURST_SECS / 60).next_burst(0, 0.0).with_hooks
