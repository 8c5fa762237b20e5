"""Step budget: allocates a job's remaining steps to workers, a few at a time, so that exactly `max_steps` are made.

    budget = StepBudget(store, max_steps=2000, sharers=2)
    budget.start_at(step=0)                # the chief, when the model is ready
    count = budget.take(100)               # a worker may now make so many steps; 0: none are left

The budget is kept in the store of ps 0.  An allocated step may never be made: its worker died, or had no input left.
Such steps are found by comparison with the global step when no worker trains; see `reclaim`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.presence import JobEndDetector, Limits
from ps_train.cluster.membership.records import Record, task_statuses

log = logging.getLogger(__name__)

_POLL_SECS = 0.05
RECLAIM_SECS = 10.0
"""Seconds without a step after which the chief takes claims as lost with their worker."""

GIVE_UP_SECS = 60.0
"""Seconds without a step after which a worker no longer waits for the chief."""


class StepClaims(v1.train.SessionRunHook):
    """The claims of one worker; also a hook, by which the chief starts the counter in every new session.

    Args:
      max_steps: the global step at which training ends.
      is_chief: True for the chief.
    """

    def __init__(self, max_steps: int, is_chief: bool) -> None:
        self._max_steps, self._is_chief, self._has_begun = max_steps, is_chief, False
        self._global_step = v1.train.get_global_step()
        with v1.device("/job:ps/task:0/device:CPU:0"):
            # In no collection: neither saved nor initialized with the model.
            counter = v1.Variable(
                0, name="ps_train/claimed_steps", dtype=tf.int64, trainable=False, collections=[], use_resource=True
            )
            self._claim = tf.raw_ops.ResourceCountUpTo(resource=counter.handle, limit=max_steps, T=tf.int64)
            self._give_back = counter.assign_sub(1, read_value=False)
            self._is_started = counter.is_initialized()
            self._start = counter.assign(tf.cast(self._global_step, tf.int64), read_value=False)

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Starts the counter at the global step, on the chief; a later session keeps it, unless it was lost."""
        if self._is_chief and not (self._has_begun and session.run(self._is_started)):
            session.run(self._start)
        self._has_begun = True

    def step(self, fetches: Any) -> Callable[[Any], Any]:
        """Returns the function of one step for `MonitoredSession.run_step_fn`; it stops when no step is left."""

        def make_step(step_context: Any) -> Any:
            if not self.claim(step_context.session):
                step_context.request_stop()
            try:
                return step_context.run_with_hooks(fetches)
            except (tf.errors.OutOfRangeError, StopIteration):  # the input has ended, or a hook has ended the training
                step_context.session.run(self._give_back)
                raise

        return make_step

    def claim(self, session: v1.Session) -> bool:
        """Claims a step.

        Returns:
          False if all steps are made.
        """
        reached, since = -1, time.monotonic()
        while True:
            try:
                session.run(self._claim)
                return True
            except tf.errors.OutOfRangeError:  # all are claimed
                step = int(session.run(self._global_step))
            except (
                tf.errors.FailedPreconditionError,
                tf.errors.NotFoundError,
            ):  # the chief has not started the counter
                step, since = reached, time.monotonic()
            if step >= self._max_steps:
                return False
            if step > reached:
                reached, since = step, time.monotonic()
            silent_secs = time.monotonic() - since
            if self._is_chief and silent_secs > RECLAIM_SECS:
                log.warning("claimed steps were not made for %.0fs; they are made again", silent_secs)
                session.run(self._start)
            elif silent_secs > GIVE_UP_SECS:
                log.warning("no step was made for %.0fs; training ends here at global step %d", silent_secs, step)
                return False
            time.sleep(_POLL_SECS)


_KEY = "steps"
_PAUSE_SECS = 0.05


@dataclasses.dataclass(frozen=True)
class Ledger(Record):
    """Tickets given so far.  Pure: each method returns the next ledger.

    Attributes:
      given: the global step after all steps that have a ticket.
      held: tickets of each worker that it has not given back.
    """

    given: int
    held: dict[str, int]

    def claim(self, owner: str, wanted: int, last_step: int, num_workers: int) -> Ledger:
        """Gives a worker at most `wanted` tickets, and fewer near the end, in place of those that it held.

        Args:
          owner: the worker.
          wanted: the most tickets to give.
          last_step: the last global step.
          num_workers: the number of workers that share the rest.
        """
        left = last_step - self.given
        count = min(wanted, left, max(1, left // (2 * num_workers)))
        others = {name: held for name, held in self.held.items() if name != owner}
        if count <= 0:
            return Ledger(self.given, others)
        return Ledger(self.given + count, {**others, owner: count})

    def give_back(self, owner: str, unused: int) -> Ledger:
        """Takes a worker's tickets; the unused ones may be given again."""
        return Ledger(self.given - unused, {name: held for name, held in self.held.items() if name != owner})

    def without(self, gone: set[str]) -> Ledger:
        """Forgets workers that are gone; their tickets are not counted as unused, since a step may have been made."""
        return Ledger(self.given, {name: held for name, held in self.held.items() if name not in gone})


class StepTickets:
    """A worker's client of the ledger.

    Args:
      store: the key-value store of ps 0.
      owner: name of the worker's task and its process id, `worker:1/4f1c`.
      num_workers: the number of workers in the job.
      limits: decide when another worker is gone.
    """

    def __init__(self, store: KeyValueStore, owner: str, num_workers: int, limits: Limits) -> None:
        self._store, self._owner, self._num_workers = store, owner, num_workers
        self._detector = JobEndDetector([], limits, time.monotonic())

    def claim(self, last_step: int, wanted: int, read_step: Callable[[], int]) -> int:
        """Returns a number of tickets, in place of those held; waits while others may still need theirs.

        Args:
          last_step: the last global step.
          wanted: the most tickets to return.
          read_step: returns the present global step.

        Returns:
          The number of steps that may be begun; 0 once the last step is made.
        """
        while True:
            step = read_step()
            if step >= last_step:
                self.give_back(0)
                return 0
            text = self._store.get(_KEY)
            ledger = Ledger.from_json(text) if text else Ledger(step, {})
            claimed = ledger.claim(self._owner, wanted, last_step, self._num_workers)
            if not claimed.held and claimed.given >= last_step:
                # No worker is within a step, and the last step is not made: tickets were lost with their worker.
                step = read_step()
                claimed = Ledger(step, {}).claim(self._owner, wanted, last_step, self._num_workers)
            if self._write(text, claimed):
                count = claimed.held.get(self._owner, 0)
                if count or step >= last_step:
                    return count
            self._forget_gone_workers()
            time.sleep(_PAUSE_SECS if text else 0.0)

    def give_back(self, unused: int) -> None:
        """Gives back the tickets of this worker that it will not use."""
        while True:
            text = self._store.get(_KEY)
            if not text:
                return
            ledger = Ledger.from_json(text)
            if self._owner not in ledger.held or self._write(text, ledger.give_back(self._owner, unused)):
                return

    def rebase(self, step: int) -> None:
        """Counts from a global step again if no worker holds tickets: the model's state is another one."""
        text = self._store.get(_KEY)
        if text and not Ledger.from_json(text).held:
            self._write(text, Ledger(step, {}))

    def _write(self, before: str, after: Ledger) -> bool:
        return before == after.to_json() or self._store.compare_and_set(_KEY, before, after.to_json()) == before

    def _forget_gone_workers(self) -> None:
        items = self._store.items()
        statuses = task_statuses(items)
        gone = {
            f"{status.task}/{status.process_id}"
            for status in statuses
            if self._detector.is_gone(status, time.monotonic())
        }
        text = items.get(_KEY, "")
        if text:
            ledger = Ledger.from_json(text)
            alive = {f"{status.task}/{status.process_id}" for status in statuses} - gone
            replaced = {owner for owner in ledger.held if owner not in alive and owner != self._owner}
            if replaced:
                self._write(text, ledger.without(replaced))


class StepBudget:
    """A client of the budget.

    Args:
      store: of ps 0.
      max_steps: the global step at which the run ends.
      sharers: the number of workers that take steps.  Near the end each gets few at a time, so that all end together.
      generation: of the model's state (`records.ModelReady`).  Each generation has its own budget.
    """

    def __init__(self, store: KeyValueStore, max_steps: int, sharers: int, generation: str = "") -> None:
        self._store = store
        self._key = f"budget/{generation}"
        self._max_steps = max_steps
        self._sharers = sharers

    def start_at(self, step: int) -> None:
        """Makes all steps from `step` on available."""
        self._store.set(self._key, str(step))

    def allocated(self) -> int:
        """Returns the global step up to which steps have been allocated."""
        return int(self._store.get(self._key) or 0)

    def take(self, wanted: int, global_step: int = 0) -> int:
        """Allocates steps to the caller; returns how many, from 0 to `wanted`.

        Args:
          wanted: at most so many.
          global_step: unused, since the store has the allocated steps (see `loop.StepSource`).
        """
        known = self.allocated()
        while True:
            left = self._max_steps - known
            share = max(1, left // (2 * self._sharers))
            count = min(wanted, left, share)
            if count <= 0:
                return 0
            before = int(self._store.compare_and_set(self._key, str(known), str(known + count)) or 0)
            if before == known:
                return count
            known = before

    def give_back(self, count: int) -> None:
        """Gives back steps that were taken but not made."""
        known = self.allocated()
        while count > 0:
            before = int(self._store.compare_and_set(self._key, str(known), str(known - count)) or 0)
            if before == known:
                return
            known = before

    def reclaim(self, allocated: int, step: int) -> bool:
        """Makes lost steps available again, if the budget has not changed since `allocated` was read.

        Args:
          allocated: as `allocated()` returned it.
          step: the global step.

        Returns:
          Whether the budget was unchanged.
        """
        return self._store.compare_and_set(self._key, str(allocated), str(step)) == str(allocated)
