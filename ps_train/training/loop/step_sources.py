"""Sources of the steps that a replica may make.

source = EndingSource(StepsAhead(ledger), has_ended)
count = source.take(100, global_step=0)         # 0: none are left
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

PAUSE_SECS = 0.005
"""Seconds between two looks whether a checkpoint is taken for which steps wait."""


class SharedSteps(Protocol):
    """The steps that all replicas share: `cluster/membership/step_ledger.py`."""

    def take(self, wanted: int, global_step: int) -> int:
        """Takes up to `wanted` steps at the last known `global_step`; returns their number, 0 if none are left."""

    def made(self, count: int) -> None:
        """Notes that steps that were taken are made."""

    def give_back(self, count: int) -> None:
        """Returns steps that were taken but not made."""

    def is_paused(self) -> bool:
        """Returns True while steps that are left wait for a checkpoint."""


class StepSource(Protocol):
    """The source of the steps that a replica may make.  It is asked for more when those before are made."""

    def take(self, wanted: int, global_step: int) -> int:
        """Takes up to `wanted` steps at the last known `global_step`; returns their number, 0 if none are left."""

    def give_back(self, count: int) -> None:
        """Returns steps that were taken but not made."""

    def settle(self) -> None:
        """Gives back what the source holds; called when no further step is made."""


class LockstepSource:
    """A source for lockstep: every replica makes every step, and knows the global step after each.

    Args:
      max_steps: the last global step.
      rests: returns the global step up to which steps may be made now, 0 for all.
    """

    def __init__(self, max_steps: int, rests: Callable[[], int] = lambda: 0) -> None:
        self._max_steps, self._rests = max_steps, rests
        self._limit = self._step = 0

    def take(self, wanted: int, global_step: int) -> int:
        """Returns `wanted`, limited to the steps that may be made now."""
        self._step = global_step
        if self.is_paused():
            return 0
        end = min(self._limit, self._max_steps) if self._limit else self._max_steps
        return max(0, min(wanted, end - global_step))

    def is_paused(self) -> bool:
        """Returns True while steps that are left must wait."""
        if self._step >= self._limit:
            self._limit = self._rests()
        return bool(self._limit) and self._limit <= self._step < self._max_steps

    def give_back(self, count: int) -> None:
        """Does nothing: lockstep takes no steps that are shared."""

    def settle(self) -> None:
        """Does nothing."""


class EndingSource:
    """A source that has no further steps once the training has ended, not even those that were taken ahead.

    Args:
      source: the source of steps.
      has_ended: returns True when the training has ended.
    """

    def __init__(self, source: StepSource, has_ended: Callable[[], bool]) -> None:
        self._source, self._has_ended = source, has_ended

    def take(self, wanted: int, global_step: int) -> int:
        """Returns the steps of the source; 0 after the end."""
        return 0 if self._has_ended() else self._source.take(wanted, global_step)

    def give_back(self, count: int) -> None:
        """Returns steps to the source."""
        self._source.give_back(count)

    def settle(self) -> None:
        """Gives back what the source holds."""
        self._source.settle()


class PausedSource:
    """A source whose steps wait where a checkpoint is due: the chief takes it when all steps before it are made.

    Args:
      source: the source of steps.
      is_paused: returns True while steps that are left wait for a checkpoint.
      while_paused: called again and again meanwhile, with True at the first time; returns False to end the wait
        without steps.
    """

    def __init__(self, source: StepSource, is_paused: Callable[[], bool], while_paused: Callable[[bool], bool]) -> None:
        self._source, self._is_paused, self._while_paused = source, is_paused, while_paused

    def take(self, wanted: int, global_step: int) -> int:
        """Returns steps of the source; waits for them while it is paused."""
        while (count := self._source.take(wanted, global_step)) == 0 and self._is_paused():
            is_first = True
            while self._is_paused():
                if not self._while_paused(is_first):
                    return 0
                is_first = False
                time.sleep(PAUSE_SECS)
        return count

    def give_back(self, count: int) -> None:
        """Returns steps to the source."""
        self._source.give_back(count)

    def settle(self) -> None:
        """Gives back what the source holds."""
        self._source.settle()


class StepsAhead:
    """A source that takes the steps of the next burst while the present burst is made: taking them costs a message.

    Args:
      source: where steps are taken from.
      ahead: if False, steps are taken only when they are wanted.
    """

    def __init__(self, source: SharedSteps, ahead: bool = True) -> None:
        self._source, self._ahead = source, ahead
        self._held = 0
        self._lent = 0  # steps of the present burst
        self._taking: Future[int] | None = None
        self._wishes: queue.SimpleQueue[Any] | None = None

    def take(self, wanted: int, global_step: int) -> int:
        """Returns steps that were taken before, or takes some; begins to take those of the next burst."""
        self._receive()
        self._source.made(self._lent)
        self._lent = 0
        if self._held < wanted:
            self._held += self._source.take(wanted - self._held, global_step)
        count = self._lent = min(wanted, self._held)
        self._held -= count
        ahead = wanted + wanted // 2 + 1 - self._held  # bursts are not all of one size
        if self._ahead and count and ahead > 0:
            self._begin(ahead, global_step)
        return count

    def give_back(self, count: int) -> None:
        """Returns steps to the source."""
        self._lent = max(0, self._lent - count)
        self._source.give_back(count)

    def settle(self) -> None:
        """Returns the steps that were taken ahead, and tells that all others are made."""
        self._receive()
        self._source.made(self._lent)
        held, self._held, self._lent = self._held, 0, 0
        self._source.give_back(held)

    def _receive(self) -> None:
        """Waits for the steps that are being taken."""
        taking, self._taking = self._taking, None
        if taking is not None:
            self._held += taking.result()

    def _begin(self, wanted: int, global_step: int) -> None:
        if self._wishes is None:
            self._wishes = queue.SimpleQueue()
            threading.Thread(target=_take_all, args=[self._source, self._wishes], daemon=True, name="steps").start()
            weakref.finalize(self, self._wishes.put, None)
        self._taking = Future()
        self._wishes.put((wanted, global_step, self._taking))


def _take_all(source: SharedSteps, wishes: queue.SimpleQueue[Any]) -> None:
    """Answers wishes (number, global step, Future of the steps), until there is None in the place of one.

    One thread takes all of them: TensorFlow keeps some bytes for ever for each thread that has used it from Python.
    """
    while (wish := wishes.get()) is not None:
        wanted, global_step, taking = wish
        try:
            taking.set_result(source.take(wanted, global_step))
        except BaseException as error:
            taking.set_exception(error)


def step_source(
    max_steps: int,
    shared: SharedSteps | None,
    has_ended: Callable[[], bool],
    ahead: bool,
    while_paused: Callable[[bool], bool] = lambda is_first: True,
    rests: Callable[[], int] = lambda: 0,
) -> StepSource:
    """Returns the source of a replica's steps.

    Args:
      max_steps: the global step at which the run ends.
      shared: the steps that replicas share; None in lockstep.
      has_ended: returns True when the training has ended.
      ahead: if True, shared steps are taken ahead.
      while_paused: see `PausedSource`; the wait also ends with the training.
      rests: see `LockstepSource`.
    """
    source: Any = LockstepSource(max_steps, rests) if shared is None else StepsAhead(shared, ahead)
    is_paused = source.is_paused if shared is None else shared.is_paused
    paused = PausedSource(source, is_paused, lambda first: not has_ended() and while_paused(first))
    return EndingSource(paused, has_ended)
