"""Rounds of local steps: their lengths, their calls, and what becomes of steps that are not made."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from ps_train.base.bounds import Bounds
from ps_train.engine.step.local_calls import Told
from ps_train.training.loop.burst_size import BURST_SECS, MOST_NODES, Burst
from ps_train.training.loop.local_loop import LocalLoop, RoundScheduler
from ps_train.training.loop.loop import LoopExit
from ps_train.training.loop.step_sources import LockstepSource, StepSource
from tests.support.clusters.loops import LoopSession, SharedBudget

PULL, END = 0, -1
"""A pull alone, and the last step of a round, in a list of calls; other calls are their lengths."""

FRONT = 100
"""A call with fronts, in a list of calls, is this much longer than their number."""

WHOLE = 1_000
"""So is a call that makes a whole round."""


COPIED = 100
"""Nodes of a step that is copied for each further step of a call; those of a loop are none."""


def scheduler(steps: int, **options: Any) -> RoundScheduler:
    return RoundScheduler(round_steps=Bounds(steps, steps), **options)


def timed(rounds: RoundScheduler, step_secs: float, bursts: int = 20) -> RoundScheduler:
    for _ in range(bursts):
        count = rounds.next_burst().steps
        rounds.record(count, count * step_secs)
    return rounds


def rounds_from(rounds: RoundScheduler, first: int, last: int) -> list[int]:
    """The global steps at which rounds end."""
    found = [first]
    while found[-1] < last:
        found.append(found[-1] + rounds.round_length(found[-1]))
    return found[1:]


def calls_of(rounds: RoundScheduler, left: int) -> list[int]:
    found: list[int] = []
    while sum(found) < left:
        found.append(rounds.next_local_call(left - sum(found)))
    return found


def test_a_round_ends_at_each_multiple_of_the_cuts() -> None:
    assert rounds_from(scheduler(8, cuts=20), 0, 60) == [8, 16, 20, 28, 36, 40, 48, 56, 60]
    assert rounds_from(scheduler(8, cuts=20), 17, 40) == [20, 28, 36, 40], "of a checkpoint at any step"
    assert rounds_from(scheduler(8, cuts=4), 0, 12) == [4, 8, 12]
    assert rounds_from(scheduler(8), 3, 20) == [11, 19, 27]


def test_a_round_has_no_more_steps_than_are_left() -> None:
    assert scheduler(8, cuts=20).round_length(16, left=3) == 3
    assert scheduler(8, cuts=20).round_length(16, left=7) == 4
    assert scheduler(8).round_length(16, left=100) == 8


@pytest.mark.parametrize("cuts", [0, 20])
def test_a_burst_is_of_whole_rounds(cuts: int) -> None:
    rounds = timed(scheduler(8, cuts=cuts), BURST_SECS / 90)
    for first in (0, 8, 16, 40):
        ends = rounds_from(rounds, first, first + 200)
        burst = rounds.next_burst(first)
        assert first + burst.steps in ends, "it ends with a round"
        assert 80 <= burst.steps <= 98


def test_the_first_bursts_are_single_rounds() -> None:
    assert scheduler(8).next_burst(0).steps == 8
    assert scheduler(8, cuts=20).next_burst(16).steps == 4


def test_a_burst_ends_with_the_round_in_which_something_is_due_and_with_the_hooks() -> None:
    rounds = timed(scheduler(8, ends=[30], hooks_secs=100.0), BURST_SECS / 90)
    assert rounds.next_burst(0, 0.0) == (32, True), "30 is in the fourth round"
    assert rounds.next_burst(32, 0.0) == (32, True), "60 too"
    assert timed(scheduler(8, hooks_secs=100.0), BURST_SECS / 90).next_burst(0, 0.0).with_hooks is False


@pytest.mark.parametrize(
    "options", [{}, {"longest_call": 4, "fixed": True}, {"longest_call": 100, "fixed": True}, {"nodes": 20_000}]
)
@hypothesis.given(st.integers(1, 40), st.integers(1, 39), st.booleans())
def test_the_calls_of_a_round_make_exactly_its_steps(
    options: dict[str, Any], steps: int, left: int, is_timed: bool
) -> None:
    rounds = scheduler(steps, **{"nodes": COPIED, **options})
    if is_timed:
        timed(rounds, 1e-4, bursts=5)
    rounds.next_burst()
    calls = calls_of(rounds, left)
    assert sum(calls) == left and min(calls) >= 1
    assert len({*calls} - {1}) <= 1, "TensorFlow prepares one length beside the single step"


@pytest.mark.parametrize(("steps", "calls"), [(33, [16, 16]), (17, [16]), (8, [7]), (2, [1]), (32, [16] + [1] * 15)])
def test_calls_are_of_the_length_with_which_a_round_needs_few(steps: int, calls: list[int]) -> None:
    rounds = timed(scheduler(steps, nodes=COPIED), 1e-4)
    rounds.next_burst()
    found = calls_of(rounds, steps - 1)
    assert sum(found) == steps - 1 and len(found) <= len(calls)


def test_a_call_that_would_outlast_its_round_is_one_of_a_single_step() -> None:
    rounds = timed(scheduler(33, nodes=COPIED), 1e-3, bursts=500)
    rounds.next_burst()
    assert rounds.next_local_call(32) == rounds.next_local_call(32, secs=0.017) == 16
    assert rounds.next_local_call(32, secs=0.015) == 1
    loop = timed(scheduler(33), 1e-3, bursts=4)
    assert [loop.next_local_call(32, secs=secs) for secs in (1.0, 0.0155, 0.0005)] == [32, 15, 1]
    assert rounds.secs_left(3.0) == math.inf
    assert [scheduler(8, round_secs=0.5).secs_left(secs) for secs in (0.1, 0.5, 0.6)] == [0.4, 0.0, 0.0]


def test_a_loop_makes_as_many_steps_in_a_call_as_take_the_time_of_a_burst() -> None:
    assert calls_of(scheduler(1_000), 5) == [1] * 5, "no step is timed yet"
    assert calls_of(timed(scheduler(1_000), BURST_SECS / 99.5, bursts=4), 250) == [99, 99, 52]
    assert calls_of(timed(scheduler(1_000), 2 * BURST_SECS, bursts=4), 3) == [1, 1, 1]
    assert calls_of(scheduler(100, longest_call=7, fixed=True), 20) == [7, 7, 6]


def test_a_call_has_no_more_nodes_than_tensorflow_prepares_in_time() -> None:
    rounds = timed(scheduler(33, nodes=MOST_NODES // 5), 1e-4, bursts=2_000)
    rounds.next_burst()
    assert max(calls_of(rounds, 32)) <= 5


class Session:
    """A session of one worker, whose rounds have so many steps; it only writes down its calls.

    Attributes:
      calls: the calls.
      made: the steps of each round.
    """

    def __init__(self, steps: int = 3, input_steps: int = 10**9, others: int = 0) -> None:
        self.calls: list[int] = []
        self.made: list[int] = []
        self.with_hooks: list[bool] = []
        self._steps, self._left, self._others = steps, input_steps, others
        self._round = self.step = self.openings = 0

    def run(self, fetches: dict[str, Any], options: Any = None, hooks: bool = False) -> dict[str, Any]:
        what = fetches["train"]
        if isinstance(what, list):
            self.openings += "opening" in what
            self.calls.append(PULL)
            return {"step": self.step, "round_steps": self._steps}
        self.calls.append(what)
        if FRONT < what < WHOLE:
            return {"local": []}
        count, is_end = (1, True) if what == END else (what % WHOLE, what > WHOLE)
        count, self._left = min(count, self._left), self._left - min(count, self._left)
        self._round += count
        if not is_end:
            return {"local": []}
        made, self._round = self._round, 0
        self.made.append(made)
        self.with_hooks.append(hooks)
        self.step += made + self._others
        return {"step": self.step, "round_steps": self._steps, "examples": 4.0 * made, "made": made}


class Context(LoopSession):
    """Tells the session which calls have the hooks."""

    def run_step_fn(self, step_fn: Callable[[Any], Any]) -> Any:
        session = self._session

        def with_hooks(fetches: dict[str, Any]) -> dict[str, Any]:
            return session.run(fetches, hooks=True)

        return step_fn(SimpleNamespace(session=session, run_with_hooks=with_hooks))


class Settled(SharedBudget):
    settled = 0

    @property
    def left(self) -> int:
        return self._left

    def settle(self) -> None:
        self.settled += 1


def loop_of(
    source: StepSource,
    should_stop: Callable[[], bool] = lambda: False,
    steps: int = 3,
    counted: list[tuple[int, float]] | None = None,
    begins_alone: bool = False,
    limit: Callable[[], int] = lambda: 0,
    **options: Any,
) -> LocalLoop:
    told = Told(step="step", round_steps="round_steps")
    step: Any = SimpleNamespace(
        worker=SimpleNamespace(batches=SimpleNamespace(ended=None, progress=None)),
        calls=SimpleNamespace(first_round=told, pull=[PULL], begins_alone=begins_alone),
        lockstep=isinstance(source, LockstepSource),
        steps_per_call=lambda length: {"train": ["opening"]},
        local_steps=lambda count: {"train": count, "local": []},
        end_of_round=lambda: {"train": END},
        whole_rounds=lambda length, rounds: {"train": WHOLE * rounds + length * rounds},
        fronts=lambda count: {"train": FRONT + count, "local": []},
        pull=lambda: {"train": [PULL], "local": []},
    )
    rounds = scheduler(steps, **options)
    count = (lambda *one: counted.append(one)) if counted is not None else lambda *one: None
    return LocalLoop("worker:0", step, source, should_stop, 0, rounds, count=count, limit=limit)


def after(calls: int) -> Callable[[], bool]:
    """Tells to stop when it is asked for the next time."""
    asked = itertools.count()
    return lambda: next(asked) >= calls


def test_a_round_is_its_local_steps_and_one_exchange() -> None:
    session, budget, counted = Session(), Settled(8, 3), list[tuple[int, float]]()
    assert loop_of(budget, counted=counted).run(Context(session)) == LoopExit.STEPS
    assert session.made == [3, 3, 2] and budget.left == 0 and budget.settled == 1
    assert session.calls == [PULL, 1, 1, END, 1, 1, END, 1, END]
    assert counted == [(3, 12.0), (3, 12.0), (2, 8.0)]


def test_a_round_with_tables_begins_with_its_batches_and_a_pull() -> None:
    session, budget = Session(), Settled(8, 3)
    assert loop_of(budget, begins_alone=True).run(Context(session)) == LoopExit.STEPS
    begun, one = [FRONT + 1] * 3 + [PULL], [1, 1, END]
    assert session.calls == [PULL, *begun, *one, *begun, *one, FRONT + 1, FRONT + 1, PULL, 1, END]
    assert session.made == [3, 3, 2]


@pytest.mark.parametrize("asked", [2, 3, 4])
def test_a_round_that_is_stopped_while_it_reads_its_batches_is_never_made(asked: int) -> None:
    session, budget = Session(steps=5), Settled(100, 5)
    assert loop_of(budget, after(asked), steps=5, begins_alone=True).run(Context(session)) == LoopExit.STOPPED
    assert session.made == [] and session.calls == [PULL, *[FRONT + 1] * (asked - 2)] and budget.left == 100


def test_calls_of_a_fixed_length_are_used_where_they_fit() -> None:
    session = Session(steps=8)
    loop = loop_of(Settled(20, 8), steps=8, nodes=COPIED, longest_call=4, fixed=True)
    assert loop.run(Context(session)) == LoopExit.STEPS
    assert session.calls == [PULL, *[3, 3, 1, END] * 2, 3, END], "three calls for 7 steps, where 4 would need four"
    assert session.made == [8, 8, 4]


def test_a_short_round_without_hooks_is_one_call_once_steps_are_timed() -> None:
    session, loop = Session(steps=8), loop_of(Settled(8_000, 8_000), steps=8, nodes=100, hooks_secs=1e9)
    loop._bursts.record = functools.partial(record_slowly, loop._bursts.record)
    assert loop.run(Context(session)) == LoopExit.STEPS
    first = session.calls.index(WHOLE + 8)
    assert END in session.calls[:first]
    assert session.calls[first:].count(WHOLE + 8) > 800 and session.made == [8] * 1_000


def record_slowly(record: Callable[[int, float], None], steps: int, secs: float) -> None:
    """Records steps of a millisecond, whatever they took."""
    record(steps, steps * 1e-3)


def test_a_round_with_hooks_or_of_another_length_is_several_calls() -> None:
    session, loop = Session(steps=8), loop_of(LockstepSource(4_003), steps=8, cuts=1_000, nodes=100)
    loop._bursts.record = functools.partial(record_slowly, loop._bursts.record)
    assert loop.run(Context(session)) == LoopExit.STEPS
    assert END in session.calls[session.calls.index(WHOLE + 8) :], "bursts end with hooks"
    assert session.calls[-1] == END and session.made[-1] == 3


def joined(rounds: RoundScheduler, step: int = 0, left: float = math.inf, with_hooks: bool = False) -> int:
    return rounds.rounds_of_call(step, left, with_hooks)


@pytest.mark.parametrize(
    "options",
    [
        {"step_secs": BURST_SECS / 7},  # the round is too long
        {"nodes": MOST_NODES // 7},
        {"round_nodes": MOST_NODES + 1},
        {"nodes": 5_000, "last_step": 1_000},  # too few steps are left
        {"nodes": 5_000, "bursts": 5},  # it has not paid yet
        {"round_nodes": 40_000, "bursts": 5},
        {"longest_call": 7, "fixed": True},
        {"round_secs": 1.0},
    ],
)
def test_a_round_is_several_calls_where_one_would_not_pay(options: dict[str, Any]) -> None:
    usual = {"step_secs": 1e-4, "bursts": 200}
    given = {name: options.pop(name, value) for name, value in usual.items()}
    rounds = timed(scheduler(8, **options), **given)
    assert not joined(rounds)
    assert joined(timed(scheduler(8), **usual)), "the others do"


def test_a_fixed_call_that_is_as_long_as_a_round_makes_it() -> None:
    assert joined(scheduler(8, longest_call=8, fixed=True)) == 1
    assert joined(scheduler(8, longest_call=8, fixed=True), left=7) == 0
    assert joined(scheduler(8, longest_call=30, fixed=True)) == 1, "each example must be noted before the next round"
    assert joined(scheduler(8, longest_call=30, fixed=True, may_join=True)) == 3


def test_several_short_rounds_are_one_call_where_examples_need_not_be_noted() -> None:
    def found(**options: Any) -> int:
        return joined(timed(scheduler(8, **{"may_join": True, **options}), BURST_SECS / 100))

    assert found() == 8, "at most so many"
    assert joined(timed(scheduler(8, may_join=True), BURST_SECS / 40)) == 3
    assert found(may_join=False) == 1
    assert found(round_nodes=1_500) == 3, "more would not be prepared at once"
    assert joined(timed(RoundScheduler(round_steps=Bounds(4, 8), may_join=True), BURST_SECS / 100)) in (0, 1)


def test_rounds_of_one_call_all_have_the_usual_length_and_no_hooks() -> None:
    rounds = timed(scheduler(8, cuts=44, may_join=True), BURST_SECS / 40)
    assert joined(rounds) == 3
    assert joined(rounds, left=24) == 3 and joined(rounds, left=24, with_hooks=True) == 1
    assert joined(rounds, left=8, with_hooks=True) == 0
    assert joined(rounds, step=16) == 3 and joined(rounds, step=24) == 1, "44 is in the third one"
    assert joined(rounds, step=40) == 0


@hypothesis.given(st.integers(1, 20), st.booleans(), st.integers(0, 50))
def test_a_burst_is_of_whole_calls(per_burst: int, with_hooks: bool, first: int) -> None:
    rounds = timed(scheduler(8, may_join=True, hooks_secs=10.0), BURST_SECS / 8 / per_burst)
    most = joined(rounds)
    burst = rounds.next_burst(8 * first, 100.0 if with_hooks else 0.0)
    assert burst.with_hooks == with_hooks
    assert burst.steps % 8 == 0 and (burst.steps // 8 - with_hooks) % max(most, 1) == 0
    assert burst.steps // 8 <= 2 * per_burst + 1


def test_the_loop_makes_several_rounds_in_a_call_and_others_for_hooks_and_ends() -> None:
    session = Session(steps=8)
    loop = loop_of(Settled(8_012, 8_012), steps=8, hooks_secs=1e9, may_join=True, round_nodes=1_500)
    loop._bursts.record = functools.partial(record_slowly, loop._bursts.record)
    assert loop.run(Context(session)) == LoopExit.STEPS
    several = 3 * (WHOLE + 8)
    assert session.calls.count(several) > 300 and session.calls[-1] == END
    assert sum(session.made) == 8_012 and session.made[-1] == 4
    first = session.calls.index(several)
    assert {*session.calls[first:]} <= {several, WHOLE + 8, 7, 3, END}


def test_only_the_last_exchange_of_a_burst_has_the_hooks() -> None:
    session = Session()
    loop = loop_of(Settled(1_000, 3))
    bursts: Any = loop._bursts
    bursts._steps, bursts.record = 9, lambda steps, secs: None
    assert loop.run(Context(session)) == LoopExit.STEPS
    assert session.with_hooks[:6] == [False, False, True] * 2


@pytest.mark.parametrize("asked", [2, 3, 4])
def test_the_steps_of_a_round_that_is_left_in_the_middle_are_given_back(asked: int) -> None:
    session, budget = Session(steps=5), Settled(100, 5)
    loop = loop_of(budget, after(asked), steps=5)
    assert loop.run(Context(session)) == LoopExit.STOPPED
    assert session.made == [] and session.calls == [PULL, *[1] * (asked - 2)]
    assert budget.left == 100 and loop.global_step == 0


def test_what_was_exchanged_before_is_not_given_back() -> None:
    session, budget = Session(), Settled(100, 3)
    loop = loop_of(budget, lambda: len(session.calls) >= 8)  # in the third round
    assert loop.run(Context(session)) == LoopExit.STOPPED
    assert session.made == [3, 3] and budget.left == 94
    assert (loop.global_step, loop.next_step) == (6, 6)


@pytest.mark.parametrize(("input_steps", "made"), [(7, [3, 3, 1]), (6, [3, 3, 0]), (2, [2])])
def test_input_that_ends_in_a_round_ends_the_loop_after_its_exchange(input_steps: int, made: list[int]) -> None:
    session, budget = Session(input_steps=input_steps), Settled(100, 3)
    assert loop_of(budget).run(Context(session)) == LoopExit.INPUT
    assert session.made == made
    assert budget.left == 100 - input_steps and budget.settled == 1


def test_the_global_step_is_that_of_the_pulled_values() -> None:
    session = Session(others=2)  # other workers' steps
    loop = loop_of(Settled(9, 3))
    assert loop.run(Context(session)) == LoopExit.STEPS
    assert loop.global_step == 15


def test_after_a_pause_the_first_round_pulls_again() -> None:
    session, budget = Session(), Settled(3, 3)
    loop = loop_of(budget)
    assert loop.run(Context(session)) == LoopExit.STEPS
    session.step = 20  # others have made steps
    loop.paused()
    budget.give_back(6)
    assert loop.run(Context(session)) == LoopExit.STEPS
    assert session.calls == [PULL, 1, 1, END, PULL, 1, 1, END, 1, 1, END]
    assert (session.openings, loop.global_step) == (1, 26)


@pytest.mark.parametrize("begins_alone", [False, True])
def test_the_first_round_after_an_epoch_pulls_what_the_chief_may_have_written(begins_alone: bool) -> None:
    session, limits = Session(), iter([6, 6, 9])
    loop = loop_of(Settled(3, 3), begins_alone=begins_alone, limit=lambda: next(limits))
    for _ in range(3):
        loop.make_burst(session.run, session.run, Burst(3, False))
    begun = [FRONT + 1] * 3 + [PULL] if begins_alone else []
    pulls = [begun] * 3 if begins_alone else [[PULL], [], [PULL]]
    assert session.calls == [call for pull in pulls for call in [*pull, 1, 1, END]]


def test_a_round_in_lockstep_is_not_cut_because_rounds_have_become_longer() -> None:
    """The other replicas may have begun another burst."""
    session = Session(steps=3)  # from the second round on
    loop = loop_of(LockstepSource(100), steps=2)
    for steps in (4, 3, 2):
        loop.make_burst(session.run, session.run, Burst(steps, False))
    assert session.made == [2, 3, 2], "the last burst has no more"


def test_a_burst_in_lockstep_ends_with_the_hooks_though_another_replica_makes_longer_rounds() -> None:
    """As with --round_secs, where each round has as many steps as fit."""
    session = Session(others=1)
    loop = loop_of(LockstepSource(100))
    loop.make_burst(session.run, functools.partial(session.run, hooks=True), Burst(6, True))
    assert session.made == [3, 2] and session.with_hooks == [False, True]


def test_rounds_in_lockstep_end_at_the_last_step() -> None:
    session = Session(steps=4)
    assert loop_of(LockstepSource(10), steps=4).run(Context(session)) == LoopExit.STEPS
    assert session.made == [4, 4, 2]


def test_rounds_in_lockstep_end_at_each_cut() -> None:
    session = Session(steps=4)
    assert loop_of(LockstepSource(22), steps=4, cuts=10).run(Context(session)) == LoopExit.STEPS
    assert session.made == [4, 4, 2, 4, 4, 2, 2]


def test_a_worker_whose_rounds_are_shorter_than_those_of_others_makes_no_round_beyond_the_last_step() -> None:
    """Others make 3 steps more in each round, as when this worker's rounds end after some seconds."""
    session = Session(steps=4, others=3)
    loop = loop_of(LockstepSource(12), steps=4, round_secs=1e-9)
    loop._bursts._steps = 12
    assert loop.run(Context(session)) == LoopExit.STEPS
    assert session.made == [1, 1, 1], "12 steps are made"
