"""Every step is allocated to one worker, with several workers at once."""

from __future__ import annotations

from collections.abc import Callable

from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.step_budget import StepBudget
from tests.support.cluster import in_parallel


def test_the_budget_allocates_every_step_exactly_once(store_of: Callable[[], KeyValueStore]) -> None:
    StepBudget(store_of(), 500, 4).start_at(0)
    taken = [0, 0, 0, 0]

    def work(index: int) -> None:
        budget = StepBudget(store_of(), 500, 4)
        while count := budget.take(30):
            taken[index] += count
            if count > 3:
                budget.give_back(1)
                taken[index] -= 1

    in_parallel([lambda index=index: work(index) for index in range(4)])
    assert sum(taken) == 500
    assert StepBudget(store_of(), 500, 4).allocated() == 500


def test_lost_steps_are_allocated_again_only_if_nothing_happened_since(store_of: Callable[[], KeyValueStore]) -> None:
    budget = StepBudget(store_of(), 100, 1)
    budget.start_at(0)
    while budget.take(100):
        continue
    assert budget.take(1) == 0
    assert not budget.reclaim(allocated=99, step=80) and budget.take(1) == 0
    assert budget.reclaim(allocated=100, step=80) and budget.take(1) == 1
