"""Every step is given to one worker, with several workers at once; those of a dead worker are given again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ps_train.base.errors import LostTaskError
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.step_ledger import StepLedger
from tests.support.clusters.cluster import in_parallel


def ledger_of(store: KeyValueStore, index: int = 0, last_step: int = 500) -> StepLedger:
    return StepLedger(store, f"worker:{index}/p", last_step, sharers=4)


def test_the_ledger_gives_every_step_exactly_once(store_of: Callable[[], KeyValueStore]) -> None:
    ledger_of(store_of()).start_at(0)
    taken = [0, 0, 0, 0]

    def work(index: int) -> None:
        ledger = ledger_of(store_of(), index)
        while count := ledger.take(30):
            taken[index] += count
            if count > 3:
                ledger.give_back(1)
                taken[index] -= 1
                count -= 1
            ledger.made(count)
        assert ledger.take(1) == 0

    in_parallel([lambda index=index: work(index) for index in range(4)])
    assert sum(taken) == 500
    assert ledger_of(store_of()).left() == 0
    assert store_of().get("steps/") == '{"given": 500, "held": {}, "limit": 0}'


def test_a_store_without_the_ledger_is_a_lost_ps(store_of: Callable[[], KeyValueStore]) -> None:
    ledger = ledger_of(store_of())
    with pytest.raises(LostTaskError, match="does not know the steps of the job"):
        ledger.take(1)
