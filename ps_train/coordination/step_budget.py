"""Step budget: allocates a job's remaining steps to workers, a few at a time, so that exactly `max_steps` are made.

    budget = StepBudget(store, max_steps=2000, sharers=2)
    budget.start_at(step=0)                # the chief, when the model is ready
    count = budget.take(100)               # a worker may now make so many steps; 0: none are left

The budget is kept in the store of ps 0.  An allocated step may never be made: its worker died, or had no input left.
Such steps are found by comparison with the global step when no worker trains; see `reclaim`.
"""

from __future__ import annotations

from ps_train.coordination.kv_store import KeyValueStore


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
