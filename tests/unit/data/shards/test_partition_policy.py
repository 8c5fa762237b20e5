from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ps_train.data.shards.partition_policy import begun_partitions, open_partitions, shares


def test_a_partition_is_open_once_all_ps_have_begun_it_until_all_have_reached_its_end():
    progress = np.array([[5, 1, 0, 9, 11, 0], [5, 1, 3, 11, 11, 0]])
    assert begun_partitions(progress, 5) == [0, 1, 3, 4]
    assert open_partitions(progress, 5, {3: 10, 4: 10}) == [0, 1, 3]
    assert open_partitions(progress, 1, {}) == [0]


@given(st.integers(0, 12), st.sets(st.integers(1, 6), min_size=1), st.randoms())
def test_shares_are_fair_once_all_have_exchanged(partitions, replicas, chance):
    owners = np.array([chance.choice([0, *replicas]) for _ in range(partitions)])
    seats = np.array([replica if replica in replicas else 0 for replica in range(1, 7)])
    for _ in range(3):
        for replica in sorted(replicas, key=lambda _: chance.random()):
            keep, take = shares(owners, range(partitions), replica, seats)
            assert not set(keep) & set(take)
            owners[owners == replica] = 0
            owners[[*keep, *take]] = replica
    counts = [int((owners == replica).sum()) for replica in replicas]
    assert sum(counts) == partitions and max(counts) - min(counts) <= 1


@pytest.mark.parametrize("seats", [[0, 0, 0], [1, 0, 0]])
def test_a_replica_without_a_seat_counts_itself(seats):
    keep, take = shares(np.zeros(4), range(4), 2, np.array(seats))
    assert keep == [] and len(take) == (2 if any(seats) else 4)
