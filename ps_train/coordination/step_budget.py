"""The steps that are left, on the board of ps 0, handed out a few at a time: the job makes exactly `max_steps`.

    budget = Budget(board, max_steps=2000, sharers=2)
    budget.open(step=0)                    # the chief, when the model is ready
    granted = budget.take(100)             # a worker may now make so many steps; 0: none are left

A step that was granted but never made (its worker died, or had no input left) is found by comparing with the global
step when nobody trains any more; see `reopen`.
"""

from __future__ import annotations

from ps_train.coordination.kv_store import KeyValueStore


class StepBudget:
    """Args:
    sharers: how many workers take from it; near the end they get little at a time, so that all end together.
    world: steps of another world (`notices.Ready`) are not of this budget.
    """

    def __init__(self, board: KeyValueStore, max_steps: int, sharers: int, world: str = "") -> None:
        self._board = board
        self._key = f"budget/{world}"
        self._max_steps = max_steps
        self._sharers = sharers

    def start_at(self, step: int) -> None:
        """All steps from `step` on may be taken."""
        self._board.set(self._key, str(step))

    def allocated(self) -> int:
        """How many steps of the job have been handed out."""
        return int(self._board.get(self._key) or 0)

    def take(self, wanted: int, global_step: int = 0) -> int:
        """Between 0 and `wanted` steps that nobody else will make; how far the job is, the board knows best."""
        known = self.allocated()
        while True:
            left = self._max_steps - known
            share = max(1, left // (2 * self._sharers))
            count = min(wanted, left, share)
            if count <= 0:
                return 0
            before = int(self._board.compare_and_set(self._key, str(known), str(known + count)) or 0)
            if before == known:
                return count
            known = before

    def give_back(self, count: int) -> None:
        """Returns steps that were taken but not made."""
        known = self.allocated()
        while count > 0:
            before = int(self._board.compare_and_set(self._key, str(known), str(known - count)) or 0)
            if before == known:
                return
            known = before

    def reclaim(self, granted: int, step: int) -> bool:
        """Hands out again what was lost: only while the budget is as it was when `granted` was read."""
        return self._board.compare_and_set(self._key, str(granted), str(step)) == str(granted)
