"""Step ledger: it gives a job's remaining steps to workers, a few at a time, and knows who holds which.

    ledger = StepLedger(store, "worker:1/4f1c", last_step=2000, sharers=2)
    ledger.start_at(step=0)                # the chief, when the model is ready
    count = ledger.take(100)               # this worker may now make so many steps; 0: none are left to give
    ledger.made(count)                     # they are made, which the next message tells

    ledger.allow(600)                      # the chief: no step after 600 is given before a checkpoint of 600 is taken

So exactly `last_step` are made, and exactly the steps up to a checkpoint's multiple are in it.  The record is in the
store of ps 0.  A holder that dies, or whose call was lost, has
made some of its steps: no record can say how many.  So they come back when no living process holds any.  Then the
global step shows which are missing; see `reclaim`.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

from ps_train.base.errors import LostTaskError
from ps_train.base.life_sign import LastChange
from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import Record, TaskState, TaskStatus, task_statuses

_PAUSE_SECS = 0.05
SETTLE_SECS = 0.5
"""Seconds for which the global step must stand still before the steps of dead holders come back.

An update that a worker has sent may be applied after its end.
"""

_HOLDING = (TaskState.STARTING, TaskState.TRAINING, TaskState.RECOVERING)


@dataclasses.dataclass(frozen=True)
class Ledger(Record):
    """The steps given so far.  Pure: each method returns the next ledger.

    Attributes:
      given: the global step after all steps that were given.
      held: the steps of each holder that it may still make; of no holder that is at rest.
      limit: the global step up to which steps may be given, until a checkpoint of that step is taken; 0 for none.
    """

    given: int
    held: dict[str, int]
    limit: int = 0

    def end(self, last_step: int) -> int:
        """Returns the global step up to which steps may be given now."""
        return min(self.limit, last_step) if self.limit else last_step

    def is_paused(self, last_step: int) -> bool:
        """Returns True if further steps wait for a checkpoint."""
        return self.end(last_step) < last_step and self.given >= self.end(last_step)

    def give(self, owner: str, wanted: int, last_step: int, sharers: int, portion: int = 1) -> Ledger:
        """Gives a worker at most `wanted` steps, and fewer near the end, so that all workers end together.

        Before a checkpoint portions are larger: there are many, and steps of small portions do not share calls.

        Args:
          owner: the worker.
          wanted: the most steps to give.
          last_step: the last global step.
          sharers: the number of workers that share the rest.
          portion: steps that are made together; a worker gets a multiple of them, but for the last ones.
        """
        end = self.end(last_step)
        left = end - self.given
        least, parts = (portion, 2 * sharers) if end == last_step else (max(portion, wanted // 4), sharers)
        count = max(0, min(wanted, left, max(least, left // parts)))
        if portion < count < left:
            count -= count % portion
        return self._with(self.given + count, owner, self.held.get(owner, 0) + count)

    def take_back(self, owner: str, unused: int, made: int) -> Ledger:
        """Takes steps of a worker: those that it has made, and unused ones, which may be given again."""
        return self._with(self.given - unused, owner, self.held.get(owner, 0) - unused - made)

    def without(self, owner: str) -> Ledger:
        """Forgets what a worker holds; these steps count as given, since some may have been made."""
        return self._with(self.given, owner, 0)

    def _with(self, given: int, owner: str, count: int) -> Ledger:
        others = {name: held for name, held in self.held.items() if name != owner}
        return Ledger(given, {**others, owner: count} if count > 0 else others, self.limit)


class StepLedger:
    """A process's client of the ledger.  Its methods raise LostTaskError if ps 0 does not answer or has lost it.

    Args:
      store: of ps 0.
      owner: name of this process's task and its process id, `worker:1/4f1c`.
      last_step: the global step at which training ends.
      sharers: the number of workers that take steps.
      generation: of the model's state (`records.ModelReady`).  Each generation has its own ledger.
      portion: see `Ledger.give`.
    """

    def __init__(
        self, store: KeyValueStore, owner: str, last_step: int, sharers: int, generation: str = "", portion: int = 1
    ) -> None:
        self._store, self._owner, self._last_step, self._sharers = store, owner, last_step, sharers
        self._portion = portion
        self._key = f"steps/{generation}"
        self._lock = threading.Lock()  # one thread takes steps ahead, another gives some back
        self._text, self._made = "", 0
        self._still = LastChange()

    def start_at(self, step: int, limit: int = 0) -> None:
        """Makes all steps from `step` on available, up to a limit (see `Ledger`)."""
        self._store.set(self._key, Ledger(step, {}, limit).to_json())

    def allow(self, limit: int) -> None:
        """Lets steps be given up to a further global step; 0 for all."""
        self._change(lambda ledger: dataclasses.replace(ledger, limit=limit))

    def limit(self) -> int:
        """Returns the global step up to which steps may be made now; 0 for all."""
        return Ledger.from_json(self._present()).limit

    def is_paused(self) -> bool:
        """Returns True if steps that are left wait for a checkpoint."""
        return Ledger.from_json(self._present()).is_paused(self._last_step)

    def join(self, read_step: Callable[[], int]) -> None:
        """Starts the ledger at the global step if nobody holds steps: the model's state may be another one.

        Args:
          read_step: returns the present global step.
        """
        self._made = 0
        while True:
            text = self._store.get(self._key)
            ledger = Ledger.from_json(text).without(self._owner) if text else Ledger(0, {})
            if not ledger.held:
                ledger = Ledger(
                    read_step(), {}, ledger.limit
                )  # read after the record: who takes steps in between changes it
            if self._write(text, ledger):
                return

    def forget(self) -> None:
        """Forgets what this process holds: its calls were lost, and may or may not have made steps."""
        self._made = 0
        self._change(lambda ledger: ledger.without(self._owner))

    def take(self, wanted: int, global_step: int = 0) -> int:
        """Takes steps; returns how many, from 0 to `wanted`.

        Args:
          wanted: at most so many.
          global_step: unused, since the ledger has the steps (see `step_sources.SharedSteps`).
        """
        count = int(wanted)  # numbers of NumPy have no JSON form
        before, after = self._change(
            lambda ledger: ledger.give(self._owner, count, self._last_step, self._sharers, self._portion)
        )
        return after.given - before.given

    def made(self, count: int) -> None:
        """Notes that this process has made some of its steps; the next message tells it."""
        with self._lock:
            self._made += int(count)

    def give_back(self, count: int) -> None:
        """Gives back steps that were taken and will not be made."""
        self._change(lambda ledger: ledger.take_back(self._owner, int(count), 0))

    def left(self) -> int:
        """Returns the number of steps that may be taken."""
        return self._last_step - Ledger.from_json(self._present()).given

    def reclaim(self, read_step: Callable[[], int], is_silent: Callable[[TaskStatus], bool]) -> bool:
        """Makes the steps of dead holders available again, once no living process holds any.

        Only a process that holds no steps may call it; it is called again and again.

        Args:
          read_step: returns the present global step.
          is_silent: returns True if a task is silent for so long that it counts as dead.

        Returns:
          True if there are steps to take.
        """
        items = self._store.items()
        text = items.get(self._key, "")
        ledger = Ledger.from_json(text or self._lost())
        if ledger.given < (end := ledger.end(self._last_step)):
            return True
        statuses = {f"{status.task}/{status.process_id}": status for status in task_statuses(items)}
        if any(_holds(statuses.get(owner), is_silent) for owner in ledger.held if owner != self._owner):
            return False
        step = read_step()
        if self._still.secs((text, step), time.monotonic()) < SETTLE_SECS or step >= end:
            return False
        return self._write(text, Ledger(step, {}, ledger.limit))

    def take_or_wait(self, wanted: int, read_step: Callable[[], int], is_silent: Callable[[TaskStatus], bool]) -> int:
        """Takes steps; waits while none are left and others may still need theirs.

        Args:
          wanted: the most steps to take.
          read_step: returns the present global step.
          is_silent: see `reclaim`.

        Returns:
          The number of steps that may be begun; 0 once the last step is made.
        """
        while (count := self.take(wanted)) == 0 and read_step() < self._last_step:
            if not self.reclaim(read_step, is_silent):
                time.sleep(_PAUSE_SECS)
        return count

    def _change(self, change: Callable[[Ledger], Ledger]) -> tuple[Ledger, Ledger]:
        """Changes the ledger, and tells what was made; returns it before and after the change."""
        with self._lock:
            text = self._text or self._present()
            while True:
                before = Ledger.from_json(text).take_back(self._owner, 0, self._made)
                after = change(before)
                present = self._store.compare_and_set(self._key, text, after.to_json()) or self._lost()
                if present == text:
                    self._text, self._made = after.to_json(), 0
                    return before, after
                text = present

    def _write(self, before: str, after: Ledger) -> bool:
        return self._store.compare_and_set(self._key, before, after.to_json()) == before

    def _present(self) -> str:
        return self._store.get(self._key) or self._lost()

    def _lost(self) -> str:
        raise LostTaskError(f"{self._store.name} was restarted: it does not know the steps of the job")


def _holds(status: TaskStatus | None, is_silent: Callable[[TaskStatus], bool]) -> bool:
    """Returns whether a process may still make the steps that it holds."""
    return status is not None and status.state in _HOLDING and not process_exited(status) and not is_silent(status)
