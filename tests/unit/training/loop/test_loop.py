"""The loop, with a session that only writes down which calls were made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.training.loop.burst_size import Burst, BurstScheduler
from ps_train.training.loop.loop import LoopExit, TrainingLoop
from tests.support.clusters.loops import LoopSession, SharedBudget

HOOKS = 0
"""A step with the hooks, in the list of calls; other calls are their lengths."""


class Written:
    """A session; the input ends after `input_steps`."""

    def __init__(self, input_steps: int = 10**9) -> None:
        self.calls: list[int] = []
        self.made, self._input_steps = 0, input_steps

    def _step(self) -> float:
        self.made += 1
        return 4.0 if self.made <= self._input_steps else 0.0

    def run(self, fetches: dict[str, Any], options: v1.RunOptions | None = None) -> dict[str, Any]:
        if "step" in fetches:
            self.calls.append(HOOKS)
            return {"step": self.made + 1, "examples": self._step()}
        self.calls.append(fetches["train"])
        return {"examples": [self._step() for _ in range(fetches["train"])]}


class Sizes(BurstScheduler):
    """Bursts of given sizes, with calls of four steps."""

    def __init__(self, *bursts: Burst) -> None:
        super().__init__(4, fixed=True)
        self._bursts = list(bursts)
        self.asked: list[tuple[int, bool]] = []

    def next_burst(self, global_step: int = 0, secs_without_hooks: float = 0.0) -> Burst:
        self.asked.append((global_step, secs_without_hooks < 20.0))
        return self._bursts.pop(0)


class Settled(SharedBudget):
    settled = 0

    def settle(self) -> None:
        self.settled += 1


def loop_of(sizes: Sizes, budget: SharedBudget, should_stop=lambda: False) -> TrainingLoop:
    ops = SimpleNamespace(train=0, step_after=0)
    step: Any = SimpleNamespace(
        ops=ops,
        worker=SimpleNamespace(examples=0, batches=SimpleNamespace(progress=None)),
        lockstep=False,
        steps_per_call=lambda length: {"train": length, "examples": []},
    )
    return TrainingLoop("worker:0", step, budget, should_stop, 0, sizes)


def test_a_burst_without_hooks_is_calls_alone_and_its_steps_count() -> None:
    sizes, session = Sizes(Burst(8, False), Burst(9, True), Burst(4, False), Burst(1, True)), Written()
    budget = Settled(21)
    assert loop_of(sizes, budget).run(LoopSession(session)) == LoopExit.STEPS
    assert session.calls == [4, 4, 4, 4, HOOKS, 4]
    assert [step for step, _ in sizes.asked] == [0, 8, 17, 21]
    assert [ran for _, ran in sizes.asked] == [False, False, True, True], "when the hooks ran is known"
    assert budget.settled == 1


def test_fewer_steps_than_wanted_end_with_the_hooks() -> None:
    session = Written()
    assert loop_of(Sizes(Burst(8, False), Burst(8, False)), Settled(5)).run(LoopSession(session)) == LoopExit.STEPS
    assert session.calls == [4, HOOKS]


def test_input_that_ends_in_a_burst_without_hooks_ends_the_loop_and_gives_back_the_rest() -> None:
    session, budget = Written(input_steps=6), Settled(100)
    assert loop_of(Sizes(Burst(8, False)), budget).run(LoopSession(session)) == LoopExit.INPUT
    assert budget._left == 94 and budget.settled == 1


def test_a_loop_that_is_stopped_settles_nothing() -> None:
    budget = Settled(100)
    assert loop_of(Sizes(), budget, lambda: True).run(LoopSession(Written())) == LoopExit.STOPPED
    assert budget.settled == 0
