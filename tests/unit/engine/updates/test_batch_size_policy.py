"""The choice of a batch size, without processes: synchronisation costs some time, an example some more."""

from __future__ import annotations

import itertools

import pytest

from ps_train.engine.updates.batch_size_policy import BatchSizePolicy

SIZES = (64, 128, 256, 512)
LIMIT = 0.2


class Network:
    """Steps that take `latency` seconds, and `each` seconds an example; the examples per second never pass `most`."""

    def __init__(self, latency: float, each: float = 1e-4, most: float = 1e9) -> None:
        self.latency, self.each, self.most = latency, each, most

    def measure(self, size: int) -> tuple[float, float]:
        secs = max(self.latency + size * self.each, size / self.most)
        return (secs - size * self.each) / secs, size / secs


def sizes_chosen(policy: BatchSizePolicy, network: Network, times: int, size: int = 64) -> list[int]:
    chosen = []
    for _ in range(times):
        size = policy.next_size(size, *network.measure(size))
        chosen.append(size)
    return chosen


def test_batches_grow_until_the_share_of_synchronisation_is_below_the_limit() -> None:
    # 10 ms of synchronisation: 61 % of a step of 64, 44 % of one of 128, 28 % of one of 256, 16 % of one of 512.
    assert sizes_chosen(BatchSizePolicy(SIZES, LIMIT), Network(0.010), 6) == [128, 256, 512, 512, 512, 512]
    # 5 ms: 44 %, 28 %, 16 % of one of 256, which is enough.
    assert sizes_chosen(BatchSizePolicy(SIZES, LIMIT), Network(0.005), 6) == [128, 256, 256, 256, 256, 256]


def test_batches_do_not_grow_on_a_fast_network_or_above_the_upper_bound() -> None:
    assert sizes_chosen(BatchSizePolicy(SIZES, LIMIT), Network(0.0005), 50) == [64] * 50
    assert max(sizes_chosen(BatchSizePolicy(SIZES, LIMIT), Network(10.0), 50)) == 512


def test_a_higher_limit_ends_the_growth_earlier() -> None:
    assert sizes_chosen(BatchSizePolicy(SIZES, 0.3), Network(0.010), 4) == [128, 256, 256, 256]


def test_a_growth_that_brings_no_more_examples_a_second_is_taken_back() -> None:
    network = Network(
        0.010, most=9000
    )  # a batch of 128 makes 5,600 a second, one of 256 makes 7,200, then the ps is full
    chosen = sizes_chosen(BatchSizePolicy(SIZES, LIMIT), Network(0.010, most=7300), 4)
    assert chosen == [128, 256, 512, 256]
    assert sizes_chosen(BatchSizePolicy(SIZES, LIMIT), network, 4) == [128, 256, 512, 512]


def test_sizes_do_not_swing_where_growth_does_not_help() -> None:
    chosen = sizes_chosen(BatchSizePolicy(SIZES, LIMIT), Network(0.010, most=1000), 200)
    larger = [number for number, size in enumerate(chosen) if size > 64]
    assert 1 < len(larger) <= 6, "each try waits twice as long as the one before"
    gaps = [after - before for before, after in itertools.pairwise(larger)]
    assert gaps == sorted(gaps) and gaps[-1] >= 2 * gaps[-2] - 2


def test_batches_shrink_when_the_network_has_become_fast_and_stay_where_the_limit_is_near() -> None:
    policy = BatchSizePolicy(SIZES, LIMIT)
    assert sizes_chosen(policy, Network(0.010), 3)[-1] == 512
    chosen = sizes_chosen(policy, Network(0.0001), 20, size=512)
    assert chosen[:3] == [512, 512, 256], "one measurement alone is not enough"
    assert chosen[-1] == 64
    # 12 % at 512 would be 21 % at 256.
    assert sizes_chosen(BatchSizePolicy(SIZES, LIMIT), Network(0.007), 50, size=512) == [512] * 50


def test_a_change_of_the_network_between_growth_and_shrinking_does_not_start_a_circle() -> None:
    policy = BatchSizePolicy(SIZES, LIMIT)
    for latency in (0.002, 0.003, 0.005, 0.008):
        chosen = sizes_chosen(policy, Network(latency), 60)
        assert len(set(chosen[5:])) == 1, (latency, chosen)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_choice_is_a_possible_size(share: float) -> None:
    policy, size = BatchSizePolicy(SIZES, LIMIT), 64
    for number in range(100):
        size = policy.next_size(size, share, 100.0 * (number % 7))
        assert size in SIZES


def test_a_size_that_another_process_chose_is_no_growth_on_trial() -> None:
    policy = BatchSizePolicy(SIZES, LIMIT)
    assert policy.next_size(64, 0.9, 1000.0) == 128
    # ps 0 was restored, and the size with it.
    assert policy.next_size(64, 0.9, 500.0) == 128
