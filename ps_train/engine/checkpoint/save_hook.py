"""The chief's periodic checkpoints: one at the start, then one every few steps or seconds.

`engine/checkpoint/save_watcher.py` looks for due checkpoints between the chief's own steps.
`training/duties/saving.py` writes the last checkpoint.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import side_work
from ps_train.base.errors import SaveError, one_line
from ps_train.cluster.sessions.calls import abandonable

log = logging.getLogger(__name__)

_LATE_SECS = 1.0
"""Seconds after which a checkpoint counts as late."""
_QUIET_SECS = 60.0
"""Least seconds between two lines about late checkpoints."""
_SHORTEST_LOOK_SECS, _LONGEST_LOOK_SECS, _UNKNOWN_LOOK_SECS = 0.005, 0.1, 0.05
_IDLE_LOOK_SECS = 1.0
"""Seconds between looks where checkpoints are due neither by step nor by time."""
_RATE_SECS = 0.5
"""Seconds over which the rate of global steps is measured."""


def next_multiple(step: int, every: int) -> int:
    """Returns the first multiple of `every` after a step; 0 if `every` is 0."""
    return every * (step // every + 1) if every else 0


class Saves(Protocol):
    """The part of `checkpoint.async_saver.AsyncSaver` that the hook uses."""

    @property
    def busy(self) -> bool:
        """True while a checkpoint is being written."""

    def hurry(self) -> None:
        """Ends the pauses of the one that is being written, because another is due."""

    def start(self, session: v1.Session) -> None:
        """Starts a checkpoint."""

    def poll(self) -> int | None:
        """Returns the step of a written checkpoint that is not reported yet, or None; raises SaveError."""

    def warm_up(self, session: v1.Session) -> None:
        """Prepares for the first checkpoint."""


@dataclasses.dataclass(frozen=True)
class _Begun:
    """A checkpoint that was begun.

    Attributes:
      due_step: the multiple of save_steps at which it was due; None if it was due by time.
      late_secs: seconds from the first look at which it was due, to its beginning.
      was_busy: True if the checkpoint before it was being written when it was due.
    """

    due_step: int | None
    late_secs: float
    was_busy: bool


class _SessionState:
    """The state of a hook in one session: a thread that hangs with a lost session holds up no later one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.error: Exception | None = None
        self.observed = 0
        self.is_warm = False
        self.due_since: float | None = None
        self.was_busy = False
        self.begun: collections.deque[_Begun] = collections.deque()
        self.looks: collections.deque[tuple[float, int]] = collections.deque()


class SaveHook(v1.train.SessionRunHook):
    """A hook that starts a checkpoint when one is due and the previous one is written.

    Args:
      saves: the saver.
      step: int64 scalar, the global step after the update.
      every_steps: steps between checkpoints; 0 disables this rule.
      every_secs: seconds between checkpoints; 0 disables this rule.
      allow: called with a further multiple of `every_steps` when steps up to it may be made: so no step is made between
        a multiple and its checkpoint.  None: steps do not wait, and a checkpoint may be late.
      at_rest: called at a multiple before its checkpoint, if steps wait for it; again if the checkpoint has to wait.

    Attributes:
      step: the last saved step.
      is_of_session: whether that checkpoint was taken in the present session.
      late: number of checkpoints that were late.
    """

    def __init__(
        self,
        saves: Saves,
        step: tf.Tensor,
        every_steps: int,
        every_secs: float,
        allow: Callable[[int], None] | None = None,
        at_rest: Callable[[int], None] = lambda step: None,
    ) -> None:
        self._at_rest = at_rest
        self._saves, self._global_step, self._allow = saves, step, allow
        self._every_steps, self._every_secs = every_steps, every_secs
        self.step = self.late = self._tried = 0
        self.is_of_session = False
        self._time = 0.0
        self._next_line, self._unsaid = float("-inf"), 0
        self._state = _SessionState()

    def started(self, step: int, saved: int) -> None:
        """Prepares for training from a step in a new session.

        Args:
          step: the first step.
          saved: step of the last checkpoint, which may be an earlier one.
        """
        self._state = _SessionState()
        self._tried, self.step, self.is_of_session = step, saved, False
        self._time = time.monotonic()
        self._go_on(step)

    def _go_on(self, step: int) -> None:
        if self._allow is not None and self._every_steps:
            self._allow(next_multiple(step, self._every_steps))

    def saved(self, step: int) -> None:
        """Knows of a checkpoint that was taken by another reason than the hook's."""
        self.step = step

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetch of the hook: the step."""
        return v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Starts a checkpoint if one is due at the fetched step."""
        self.observe(int(run_values.results), run_context.session)

    def observe(self, step: int, session: v1.Session) -> None:
        """Starts a checkpoint if one is due, and reports written ones; called by the training thread.

        Raises:
          tf.errors.OpError: a ps was lost, for this thread or for `look`.
        """
        state = self._state
        if state.error is not None:
            raise state.error
        self.poll()
        with abandonable(session), state.lock:
            state.observed += 1
            if state.observed >= 2:  # not at the session's first step, so warming up does not delay it
                self._warm_up(state, session)
            self._start_if_due(state, step, session)
        self.poll()

    def look(self, step: int, session: v1.Session) -> bool:
        """Starts a checkpoint if one is due; called by another thread, between the steps of the training thread.

        Returns:
          False if a ps was lost: `observe` raises the error.
        """
        state = self._state
        state.looks.append((time.monotonic(), step))
        while len(state.looks) > 2 and state.looks[1][0] < state.looks[-1][0] - _RATE_SECS:
            state.looks.popleft()
        try:
            with state.lock:
                self._warm_up(state, session)
                self._start_if_due(state, step, session)
        except Exception as error:
            state.error = error
        return state.error is None

    @property
    def waits_for_disk(self) -> bool:
        """True while a checkpoint is due and the one before is still being written."""
        return self._state.was_busy

    def secs_to_next_look(self) -> float:
        """Returns the seconds until `look` should be called: shorter, the nearer the next checkpoint is."""
        waits = []
        if self._every_secs:
            left = self._time + self._every_secs - time.monotonic()
            waits.append(left if left > 0 else _UNKNOWN_LOOK_SECS)
        if self._every_steps:
            waits.append(self._secs_to_step(self._every_steps * (self._tried // self._every_steps + 1)))
        return max(_SHORTEST_LOOK_SECS, min(waits, default=_IDLE_LOOK_SECS))

    def _secs_to_step(self, due: int) -> float:
        looks = self._state.looks
        if len(looks) < 2 or looks[-1][1] >= due or looks[-1][1] <= looks[0][1]:
            return _UNKNOWN_LOOK_SECS
        (began, first), (now, last) = looks[0], looks[-1]
        return min(_LONGEST_LOOK_SECS, 0.5 * (due - last) * (now - began) / (last - first))

    def poll(self) -> None:
        """Updates `step` for written checkpoints, and logs a warning for one that failed or was late.

        Training continues after a failure: a full or missing disk may be available again for the next checkpoint.
        """
        while True:
            try:
                step = self._saves.poll()
            except SaveError as error:
                log.warning("%s; training continues, the last checkpoint is of step %d", error, self.step)
                side_work.failed("checkpoints", one_line(error), is_told=True)
                step = None
                if self._state.begun:
                    self._state.begun.popleft()
                continue
            if step is None:
                return
            side_work.works("checkpoints", is_told=True)
            self.step, self.is_of_session = step, True
            self._tried = max(self._tried, step)
            if self._state.begun:
                self._report_late(self._state.begun.popleft(), step)

    def _report_late(self, begun: _Begun, step: int) -> None:
        beside = self._every_steps if self._allow is None else 1  # steps that wait for checkpoints are beside none
        is_passed = begun.due_step is not None and step >= begun.due_step + beside
        if begun.late_secs <= _LATE_SECS and not is_passed:
            return
        self.late += 1
        if time.monotonic() < self._next_line:
            self._unsaid += 1
            return
        found = "left out" if step == begun.due_step else f"begun {begun.late_secs:.1f}s later, at step {step}"
        due = f"at step {begun.due_step}" if begun.due_step is not None else f"{self._every_secs:g}s after the last one"
        flag = "save_secs" if begun.due_step is None else "save_steps"
        if begun.was_busy:
            cause = f"the one before was still being written: use a larger {flag}"
        elif begun.due_step is not None and self._allow is not None:
            cause = "workers made steps without waiting for it, as the chief or a worker was away"
        else:
            cause = f"steps are faster than the chief saves: use a larger {flag}"
        others = f" ({self._unsaid} others were late since the last such line)" if self._unsaid else ""
        log.warning("a checkpoint was due %s and was %s, because %s%s", due, found, cause, others)
        self._next_line, self._unsaid = time.monotonic() + _QUIET_SECS, 0

    def _warm_up(self, state: _SessionState, session: v1.Session) -> None:
        """Prepares for the first checkpoint, once in a session."""
        if not state.is_warm and not self._saves.busy:
            state.is_warm = True
            self._saves.warm_up(session)

    def _start_if_due(self, state: _SessionState, step: int, session: v1.Session) -> None:
        by_step = bool(self._every_steps) and step // self._every_steps > self._tried // self._every_steps
        now = time.monotonic()
        if not by_step and not (self._every_secs and now - self._time >= self._every_secs and step > self.step):
            return
        if (
            by_step
            and self._allow is not None
            and step % self._every_steps
            and step - self.step < 2 * self._every_steps
        ):
            self._tried = step  # a stalled or dead worker made a step too late; the next multiple is soon
            self._go_on(step)
            return
        if by_step and self._allow is not None:
            self._at_rest(step)
        since = state.due_since = now if state.due_since is None else state.due_since
        if self._saves.busy:
            state.was_busy = True
            self._saves.hurry()
            if self._allow is None or not by_step:
                return
            if not self._is_free_soon(since):
                self._leave_out(state, step, since)
                return
            self.poll()
            if step // self._every_steps <= self._tried // self._every_steps:  # it was late, and has this multiple
                state.due_since, state.was_busy = None, False
                self._go_on(step)
                return
        due = self._every_steps * (self._tried // self._every_steps + 1) if by_step else None
        state.begun.append(_Begun(due, now - since, state.was_busy))
        state.due_since, state.was_busy = None, False
        self._tried, self._time = step, now
        self._saves.start(session)
        if by_step:
            self._go_on(step)

    def _is_free_soon(self, since: float) -> bool:
        """Waits until the checkpoint before is written, up to `_LATE_SECS`; returns False if it is not."""
        while self._saves.busy:
            if time.monotonic() - since >= _LATE_SECS:
                return False
            time.sleep(_SHORTEST_LOOK_SECS)
        return True

    def _leave_out(self, state: _SessionState, step: int, since: float) -> None:
        """Gives up the checkpoint of this step: the next one is at the next multiple."""
        begun = _Begun(next_multiple(self._tried, self._every_steps), time.monotonic() - since, True)
        state.due_since, state.was_busy, self._tried = None, False, step
        self._report_late(begun, step)
        self._go_on(step)
