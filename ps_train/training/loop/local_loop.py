"""The training loop of local steps: rounds, each of which ends with an exchange.

    bursts = RoundScheduler.of(job, ends=[100], round_steps=32)
    loop = LocalLoop("worker:1", step, source, should_stop, first_step=0, bursts=bursts)

The steps of a round run in calls without any message; its last one runs with the push and the pull, and with the hooks
where they are due.  A round that is left in the middle, because the loop must stop, never happened: nothing of it was
pushed, and the next session begins with a pull.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ps_train.base.bounds import Bounds
from ps_train.cluster.sessions.calls import UNBOUNDED_CALL
from ps_train.engine.step.local_calls import LocalCalls
from ps_train.training.loop.burst_size import (
    BURST_SECS,
    MARGIN,
    MOST_NODES,
    NODES_AT_ONCE,
    Burst,
    BurstScheduler,
    steps_to_pay,
)
from ps_train.training.loop.loop import TrainingLoop

_LONGEST_CALL = 16
"""Maximum number of copied local steps of a call, unless --steps_per_run names another: more save little."""
_MOST_ROUNDS = 8
"""Maximum number of rounds of a call, unless --steps_per_run names another: more save little."""


class RoundScheduler(BurstScheduler):
    """Choice of rounds, and of the number of local steps of their calls.

    Args:
      longest_call, fixed, nodes, options: see `BurstScheduler`.  With at most one node for each further step, local
        steps are a loop, of which TensorFlow prepares any number at once.
      round_steps: the fewest and the most steps of a usual round; it begins with the fewest.
      cuts: a round ends at each multiple of this global step, 0 for none.  Replicas in lockstep need it, which must all
        make the same rounds; others get no steps beyond a multiple.
      round_secs: seconds after which a round ends, 0 for any number.
      round_nodes: number of nodes that TensorFlow prepares for a round in one call, without those of its steps.
      may_join: whether a call may make several rounds: each example of the input is as good as another.

    Attributes:
      round_steps: the most steps of a round that begins now.
    """

    def __init__(
        self,
        longest_call: int = 1,
        fixed: bool = False,
        nodes: int = 0,
        *,
        round_steps: Bounds,
        cuts: int = 0,
        round_secs: float = 0.0,
        round_nodes: int = 0,
        may_join: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(longest_call, fixed, nodes=nodes, **options)
        self.round_steps, self._cuts, self._round_secs = round_steps.lower, cuts, round_secs
        alone, self._longest = round_steps.upper - 1, longest_call
        self._is_loop, self._may_join = nodes <= 1, may_join and not round_steps.is_range
        longest = min(alone, longest_call if fixed else _LONGEST_CALL, MOST_NODES // max(nodes, 1))
        halves = [longest] if fixed else [longest >> times for times in range(max(longest, 1).bit_length())]
        self._lengths = sorted({_best_length(alone, most) for most in halves}, reverse=True)
        self._length = self._lengths[0] if self._fixed else 0
        self._round_nodes = round_nodes + round_steps.upper * nodes
        fits = self._round_nodes <= MOST_NODES and not round_secs and (not fixed or longest_call > alone)
        self._whole = round_steps.upper if alone and fits else 0
        self._rounds, self._left = 0, math.inf  # of a call; 0 before it is known
        self._prepared_rounds = set[int]()

    def next_burst(self, global_step: int = 0, secs_without_hooks: float = math.inf) -> Burst:
        """Returns the steps of whole rounds."""
        self._left = (self._last_step - global_step) / self._replicas
        self._length = self._length_for(self._left)
        with_hooks = secs_without_hooks >= self._hooks_secs
        end, rounds, is_due = global_step, 0, False
        while not is_due and (end - global_step < self._steps or (rounds - with_hooks) % max(self._rounds, 1)):
            end, rounds = end + self.round_length(end), rounds + 1
            is_due = any(end // every > global_step // every for every in self._ends)
        return Burst(end - global_step, is_due or with_hooks)

    def round_length(self, global_step: int, left: float = math.inf) -> int:
        """Returns the number of steps of the round that begins at a global step.

        Args:
          global_step: that of the round's values.
          left: steps that this replica may make.
        """
        to_cut = self._cuts - global_step % self._cuts if self._cuts else math.inf
        return int(min(self.round_steps, to_cut, left))

    def hooks_are_due(self, secs: float) -> bool:
        """Returns True if hooks that ran so many seconds ago should run again: a round may be long."""
        return secs >= self._hooks_secs

    def secs_left(self, secs: float) -> float:
        """Returns the seconds that are left of a round that began so many seconds ago; it should end at 0."""
        return max(0.0, self._round_secs - secs) if self._round_secs else math.inf

    def rounds_of_call(self, global_step: int, left: float, with_hooks: bool) -> int:
        """Returns how many of the next rounds are made in one call; 0 if the next one is several calls.

        Args:
          global_step: that at which the next round begins.
          left: steps that are left in the burst.
          with_hooks: whether the burst ends with hooks, which belong to no such call.
        """
        length, usual = self._whole, 0
        if not length or self.round_length(global_step, left) < length or not self._fits(length):
            return 0
        if not self._rounds:
            if not self._fixed and not self._pays(length):
                return 0
            self._rounds = self._most_rounds(length)
        while usual < self._rounds and self.round_length(global_step, left) == length:
            global_step, left, usual = global_step + length, left - length, usual + 1
        usual -= with_hooks and not left
        if not usual:
            return 0
        rounds = self._rounds if usual >= self._rounds else 1
        self._prepares_graphs |= rounds not in self._prepared_rounds
        self._prepared_rounds.add(rounds)
        return rounds

    def _fits(self, length: int) -> bool:
        """Returns True if a round is short enough for a call."""
        return self._fixed or length * min(self._secs, default=math.inf) <= BURST_SECS

    def _pays(self, length: int) -> bool:
        """Returns True if rounds in one call are worth their preparation now."""
        if not self._is_timed:
            return False
        others = 1.0 if self._is_loop else sum(divmod(length - 1, max(self._length, 1)))  # calls beside a round's end
        pays = steps_to_pay(length, math.ceil(self._round_nodes / length), length / others)
        return pays <= self._left and self._is_due(self._round_nodes, pays)

    def _most_rounds(self, length: int) -> int:
        """Returns the number of rounds of a call."""
        if not self._may_join:
            return 1
        if self._fixed:
            return max(1, self._longest // length)
        short = int(MARGIN * BURST_SECS / (length * self.step_secs))
        return max(1, min(short, _MOST_ROUNDS, NODES_AT_ONCE // max(self._round_nodes, 1)))

    def next_local_call(self, left: int, secs: float = math.inf) -> int:
        """Returns the number of local steps of the next call, at least 1.

        Args:
          left: steps that are left.
          secs: seconds that are left; a call that would take longer is one of a single step, or of fewer steps.
        """
        if self._is_loop:
            most = self._longest if self._fixed else BURST_SECS / self.step_secs if self._is_timed else 1
            return max(1, int(min(left, most, secs / self.step_secs if self.step_secs else math.inf)))
        length = self.next_call_length(left) or 1
        return length if length * self.step_secs <= secs else 1


class LocalLoop(TrainingLoop):
    """The loop that runs one replica's rounds.

    Args:
      arguments, options: see `TrainingLoop`.
      limit: returns the global step up to which steps may be made now.  Where it has changed, the next round begins
        with values that are pulled again: the chief may have written some between two epochs.
    """

    _must_pull = _is_unmoved = False

    def __init__(self, *arguments: Any, limit: Callable[[], int] = lambda: 0, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limit, self._last_limit = limit, 0

    def paused(self) -> None:
        """Begins the next round with values that are pulled again: others may have changed them meanwhile."""
        self._must_pull = True

    def make_burst(self, run: Callable[..., Any], run_with_hooks: Callable[..., Any], size: Burst) -> bool:
        """Makes the rounds of a burst; returns True if a step had no examples."""
        rounds = cast(RoundScheduler, self._bursts)
        if (limit := self._limit()) != self._last_limit:
            self._last_limit = limit
            self._must_pull |= not self._calls.begins_alone  # else each round pulls by itself
        if self._must_pull:
            self._must_pull = False
            self._pull(run, self._calls.pull)
        first, begun, round_steps = self.global_step, 0, rounds.round_steps
        while begun < size.steps and not self._should_stop():
            if self._step.lockstep and rounds.round_steps != round_steps:
                break  # the burst ends within a round of the new length, which other replicas do not cut
            planned = rounds.round_length(self.global_step, size.steps - begun)
            before, is_last, joined = self.global_step, begun + planned >= size.steps, 0
            if not self._is_unmoved:
                joined = rounds.rounds_of_call(before, size.steps - begun, self._hooks_are_due(size))
            if joined:
                length = planned * joined
                made = self._end_round(run, length, self._step.whole_rounds(planned, joined))
            else:
                left = self._make_alone(run, planned)
                if left is None:
                    break
                length = planned - left
                with_hooks = self._is_unmoved or (is_last and self._hooks_are_due(size))
                made = self._end_round(run_with_hooks if with_hooks else run, length, self._step.end_of_round())
                self._hooks_time = time.monotonic() if with_hooks else self._hooks_time
            self._made += made
            # In lockstep a round moves the global step by that of the replica with the most steps.
            begun = self.global_step - first if self._step.lockstep else begun + length
            self._is_unmoved = self._step.lockstep and self.global_step == before
            if made < length:
                return True
            if self._is_unmoved:
                break  # nothing of the round was used, as when a replica announces itself: its batches come again
        return False

    def _hooks_are_due(self, size: Burst) -> bool:
        """Returns True if a burst should end with the hooks."""
        rounds = cast(RoundScheduler, self._bursts)
        return size.with_hooks or rounds.hooks_are_due(time.monotonic() - self._hooks_time)

    def _make_alone(self, run: Callable[..., Any], planned: int) -> int | None:
        """Makes all steps of a round but the last; returns how many are left out, and None if the loop must stop."""
        rounds = cast(RoundScheduler, self._bursts)
        if self._calls.begins_alone and not self._begin_round(run, planned):
            return None
        left, started = planned - 1, time.monotonic()
        while left and not self._should_stop() and (secs := rounds.secs_left(time.monotonic() - started)) > 0:
            count = rounds.next_local_call(left, secs)
            run(self._step.local_steps(count))
            left -= count
        return None if left and self._should_stop() else left

    def _begin_round(self, run: Callable[..., Any], length: int) -> bool:
        """Reads the batches of a round, and pulls their rows; returns False if the loop must stop before."""
        rounds, left = cast(RoundScheduler, self._bursts), length
        while left:
            if self._should_stop():
                return False
            count = rounds.next_local_call(left)
            run(self._step.fronts(count))
            left -= count
        run(self._step.pull())
        return True

    def _end_round(self, run: Callable[..., Any], length: int, fetches: Mapping[str, Any]) -> int:
        """Makes the call that ends rounds of so many steps; returns the steps that had examples."""
        self._count_call(length)
        fetched = run(fetches)
        self._began_round(fetched)
        self._last_examples = float(fetched["examples"])
        self._count(length, self._last_examples)
        return int(fetched["made"])

    def open_session(self, session: Any) -> None:
        """Makes the first pull of the session."""
        if self._opening:
            self._must_pull = False
            self._pull(functools.partial(session.run, options=UNBOUNDED_CALL), self._opening)
            self._opening = []

    def _pull(self, run: Callable[..., Any], train: Sequence[Any]) -> None:
        """Makes a call that pulls and makes no step."""
        self._count_call(0)
        self._began_round(run({"train": train, **self._calls.first_round._asdict()}))

    def _began_round(self, told: Mapping[str, Any]) -> None:
        """Takes in what the pull at the beginning of a round tells."""
        self.global_step, self._begun = int(told["step"]), 0
        cast(RoundScheduler, self._bursts).round_steps = int(told["round_steps"])

    @property
    def _calls(self) -> LocalCalls:
        return cast(LocalCalls, self._step.calls)


def _best_length(steps: int, longest: int) -> int:
    """Returns the length of calls, at most `longest`, with which so many steps need the fewest calls; at least 1."""
    return min(range(1, max(longest, 1) + 1), key=lambda length: steps // length + steps % length)
