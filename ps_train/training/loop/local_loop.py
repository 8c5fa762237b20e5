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
from ps_train.training.loop.burst_size import BURST_SECS, MOST_NODES, Burst, BurstScheduler, steps_to_pay
from ps_train.training.loop.loop import TrainingLoop

_LONGEST_CALL = 16
"""Maximum number of local steps of a call, unless --steps_per_run names another: more save little."""


class RoundScheduler(BurstScheduler):
    """Choice of rounds, and of the number of local steps of their calls.

    Args:
      longest_call, fixed, nodes, options: see `BurstScheduler`.
      round_steps: the fewest and the most steps of a usual round; it begins with the fewest.
      cuts: a round ends at each multiple of this global step, 0 for none.  Replicas in lockstep need it, which must all
        make the same rounds; others get no steps beyond a multiple.
      round_secs: seconds after which a round ends, 0 for any number.

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
        **options: Any,
    ) -> None:
        super().__init__(longest_call, fixed, nodes=nodes, **options)
        self.round_steps, self._cuts, self._round_secs = round_steps.lower, cuts, round_secs
        alone = round_steps.upper - 1
        longest = min(alone, longest_call if fixed else _LONGEST_CALL, MOST_NODES // max(nodes, 1))
        halves = [longest] if fixed else [longest >> times for times in range(max(longest, 1).bit_length())]
        self._lengths = sorted({_best_length(alone, most) for most in halves}, reverse=True)
        self._length = self._lengths[0] if self._fixed else 0
        fits = round_steps.upper * nodes <= MOST_NODES and not round_secs and (not fixed or longest_call > alone)
        self._whole = round_steps.upper if alone and fits else 0
        self._is_whole, self._left = fixed, math.inf

    def next_burst(self, global_step: int = 0, secs_without_hooks: float = math.inf) -> Burst:
        """Returns the steps of whole rounds."""
        self._left = (self._last_step - global_step) / self._replicas
        self._length = self._length_for(self._left)
        end, is_due = global_step, False
        while end - global_step < self._steps and not is_due:
            end += self.round_length(end)
            is_due = any(end // every > global_step // every for every in self._ends)
        return Burst(end - global_step, is_due or secs_without_hooks >= self._hooks_secs)

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

    def is_one_call(self, length: int) -> bool:
        """Returns True if a round of so many steps, that is not to end with hooks, should be made in one call.

        Such a round has the usual length, is short, and is worth its preparation.
        """
        if length != self._whole or not (self._fixed or length * min(self._secs, default=math.inf) <= BURST_SECS):
            return False
        if not self._is_whole:
            others = sum(divmod(length - 1, max(self._length, 1)))  # calls that a round needs beside its end
            pays = steps_to_pay(length, self._nodes, length / others)
            if not self._is_timed or pays > self._left or not self._is_due(length, pays):
                return False
            self._is_whole = self._prepares_graphs = True
        return True

    def next_local_call(self, left: int, secs: float = math.inf) -> int:
        """Returns the number of local steps of the next call, at least 1.

        Args:
          left: steps that are left.
          secs: seconds that are left; a call that would take longer is one of a single step.
        """
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
            before, length, is_last = self.global_step, planned, begun + planned >= size.steps
            if not self._needs_hooks(size, is_last) and rounds.is_one_call(planned):
                made = self._end_round(run, planned, self._step.whole_round(planned))
            else:
                left = self._make_alone(run, planned)
                if left is None:
                    break
                length, with_hooks = planned - left, self._needs_hooks(size, is_last)
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

    def _needs_hooks(self, size: Burst, is_last: bool) -> bool:
        """Returns True if the present round, the last one of a burst or another, should end with the hooks."""
        is_due = size.with_hooks or cast(RoundScheduler, self._bursts).hooks_are_due(
            time.monotonic() - self._hooks_time
        )
        # What a round waits for may be a hook's work.
        return self._is_unmoved or (is_due and is_last)

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
        """Makes the call that ends a round of so many steps; returns the steps that had examples."""
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
