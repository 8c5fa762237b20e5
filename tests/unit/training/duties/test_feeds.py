"""What a task trains on: the order of its examples, and when there is nothing left for anyone."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.cluster.membership.liveness import PeerStates
from ps_train.config.job import Job
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.engine.updates.modes.base import Replica
from ps_train.training.duties.feeds import OwnFeed, SharedFeed

COUNT = 40
NONE, WAITING = PeerStates((), ()), PeerStates((), ("worker:1 on host-b, pid 42",))


def setting_of(seed: int = 5, worker: int = 0, lockstep: bool = False, begin: Any = None) -> Any:
    """What a feed is made of."""
    source = types.SimpleNamespace(name="data")
    prepared = types.SimpleNamespace(task="worker:0", source=source, job=Job(seed=seed), replica=Replica(worker, 2, 2))
    step = types.SimpleNamespace(lockstep=lockstep)
    return types.SimpleNamespace(
        prepared=prepared, step=step, input=types.SimpleNamespace(begin=begin, begins_anywhere=False)
    )


def order(seed: int = 5, worker: int = 0, step: int = 0) -> tuple[int, ...]:
    """All examples in the order in which a worker reads them when it begins at that step."""
    numbers = np.arange(COUNT)
    with tf.Graph().as_default(), v1.Session() as session:
        batches = training_batches(Arrays(numbers, numbers), WHOLE, COUNT, epochs=1, shuffle_buffer=COUNT)
        feed = OwnFeed(
            setting_of(seed, worker, begin=lambda seed, step: session.run(batches.initializer, batches.feeds(seed)))
        )
        feed.opened(session, types.SimpleNamespace(step=step))  # type: ignore[arg-type]
        read = tuple(session.run(batches.labels).tolist())
        feed.opened(session, types.SimpleNamespace(step=step + 1))  # type: ignore[arg-type]
        with pytest.raises(tf.errors.OutOfRangeError):  # a second session goes on where the first was
            session.run(batches.labels)
        feed.interrupted()
        feed.opened(session, types.SimpleNamespace(step=step))  # type: ignore[arg-type]
        assert tuple(session.run(batches.labels).tolist()) == read
    assert sorted(read) == list(range(COUNT))
    return read


def test_the_order_is_another_one_after_a_resume_on_another_worker_and_with_another_seed() -> None:
    orders = [order(), order(step=100), order(step=101), order(worker=1), order(worker=1, step=100), order(seed=6)]
    assert len(set(orders)) == len(orders)


def test_the_order_is_the_same_whenever_the_same_worker_begins_at_the_same_step() -> None:
    assert order(worker=1, step=100) == order(worker=1, step=100)


@pytest.mark.parametrize(
    ("others", "ended", "expected"), [(NONE, False, False), (NONE, True, True), (WAITING, True, False)]
)
def test_without_lockstep_a_worker_that_waits_may_still_have_input(
    others: PeerStates, ended: bool, expected: bool
) -> None:
    feed = OwnFeed(setting_of())
    assert feed.loop_ended(ended) is ended
    assert feed.is_exhausted(others) is expected


def test_in_lockstep_the_job_is_over_when_no_worker_trains() -> None:
    feed = OwnFeed(setting_of(lockstep=True))
    assert feed.is_exhausted(WAITING) and not feed.has_more(lambda: True)


@pytest.mark.parametrize(
    ("ended", "left", "expected"), [(False, True, True), (False, False, False), (True, True, False)]
)
def test_a_worker_goes_on_if_steps_were_given_back_and_its_input_has_not_ended(
    ended: bool, left: bool, expected: bool
) -> None:
    feed = OwnFeed(setting_of())
    feed.loop_ended(ended)
    assert feed.has_more(lambda: left) is expected


class Shards:
    """A client of shards."""

    def __init__(self, over: bool) -> None:
        self._over, self.freed = over, 0

    def is_over(self) -> bool:
        return self._over

    def release_all(self) -> None:
        self.freed += 1


def test_shards_of_workers_that_are_gone_are_freed_until_all_epochs_are_over() -> None:
    left, over = Shards(False), Shards(True)
    assert [SharedFeed.is_exhausted(types.SimpleNamespace(_client=one), WAITING) for one in (left, over)] == [  # type: ignore[arg-type]
        False,
        True,
    ]
    assert (left.freed, over.freed) == (1, 0)
