"""Tickets for steps: a worker has one for each step that it begins, so a job ends with exactly its last step.

    tickets = StepTickets(store, owner="worker:1/4f1c", num_workers=2)
    tickets.claim(last_step=100, wanted=8, read_step=lambda: session.run(global_step))      # 1 to 8; 0: the job is done
    tickets.give_back(3)

A record on ps 0 holds the number of tickets given, and how many of them each worker holds.  Tickets of a worker that
dies are given to others.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from ps_train.classic.membership import JobEndDetector, Limits, statuses_in
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.records import Record

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
        statuses = statuses_in(items)
        gone = {
            f"{task}/{status.process_id}"
            for task, status in statuses.items()
            if self._detector.is_gone(task, status, time.monotonic())
        }
        text = items.get(_KEY, "")
        if text:
            ledger = Ledger.from_json(text)
            alive = {f"{task}/{status.process_id}" for task, status in statuses.items()} - gone
            replaced = {owner for owner in ledger.held if owner not in alive and owner != self._owner}
            if replaced:
                self._write(text, ledger.without(replaced))
