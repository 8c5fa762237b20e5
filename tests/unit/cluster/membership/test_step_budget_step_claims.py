"""Claims on steps: several workers share max_steps, and none is made twice or lost."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership import step_budget
from ps_train.cluster.membership.step_budget import RECLAIM_SECS, StepClaims


class Worker:
    """A worker's claims and session; the variables are shared through a server."""

    def __init__(self, target: str, max_steps: int, is_chief: bool) -> None:
        with tf.Graph().as_default() as graph, v1.device("/job:ps/task:0"):
            step = v1.train.create_global_step()
            self.add = step.assign_add(1)
            self.init = step.initializer
            self.claims = StepClaims(max_steps, is_chief)
        self.session = v1.Session(target, graph=graph)

    def claim(self) -> bool:
        return self.claims.claim(self.session)

    def make_step(self) -> bool:
        if self.claim():
            self.session.run(self.add)
            return True
        return False


@pytest.fixture(scope="module")
def target() -> str:
    return v1.train.Server({"ps": ["localhost:0"]}, "ps", 0).target


@pytest.fixture
def workers(target: str, request: Any) -> Iterator[list[Worker]]:
    v1.Session.reset(target)
    made = [Worker(target, 20, is_chief) for is_chief in (True, False)]
    made[0].session.run(made[0].init)
    yield made
    for worker in made:
        with contextlib.suppress(tf.errors.AbortedError):  # a test has reset the server
            worker.session.close()


def start(worker: Worker) -> None:
    worker.claims.after_create_session(worker.session, None)


def test_two_workers_make_exactly_the_steps(workers):
    start(workers[0])
    made = [0, 0]

    def work(i: int) -> None:
        while workers[i].make_step():
            made[i] += 1

    threads = [threading.Thread(target=work, args=[i]) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(made) == 20


def test_a_worker_waits_for_the_chief(workers):
    started = []

    class Chief(threading.Thread):
        def run(self) -> None:
            started.append(True)
            start(workers[0])

    chief = Chief()
    timer = threading.Timer(0.2, chief.start)
    timer.start()
    assert workers[1].claim() and started
    chief.join(10)


@pytest.mark.parametrize("end", [tf.errors.OutOfRangeError(None, None, "the input has ended"), StopIteration()])
def test_a_step_that_was_not_made_is_given_back(workers, end):
    chief, other = workers
    start(chief)
    for _ in range(19):
        chief.make_step()

    class Context:
        session = other.session

        def run_with_hooks(self, fetches: Any) -> Any:
            raise end

    with pytest.raises(type(end)):
        other.claims.step(None)(Context())
    began = time.monotonic()
    assert chief.make_step()
    assert time.monotonic() - began < RECLAIM_SECS / 2, "given back at once, not taken for lost"
    assert not chief.make_step() and not other.make_step()


def test_claims_of_a_lost_worker_are_made_again_by_the_chief(workers, monkeypatch):
    monkeypatch.setattr(step_budget, "RECLAIM_SECS", 0.3)
    chief, other = workers
    start(chief)
    assert other.claim() and other.claim()  # and never made
    made = sum(1 for _ in iter(chief.make_step, False))
    assert made == 20


def test_a_worker_does_not_wait_for_a_lost_chief_without_end(workers, monkeypatch, caplog):
    monkeypatch.setattr(step_budget, "GIVE_UP_SECS", 0.3)
    chief, other = workers
    start(chief)
    assert chief.claim()  # and never made
    made = sum(1 for _ in iter(other.make_step, False))
    assert made == 19 and "training ends here at global step 19" in caplog.text


def test_training_that_continues_starts_at_its_global_step(workers):
    chief, _ = workers
    for _ in range(15):
        chief.session.run(chief.add)
    start(chief)
    assert sum(1 for _ in iter(chief.make_step, False)) == 5


def test_a_later_session_keeps_the_claims_unless_they_are_lost(workers, target):
    chief, other = workers
    start(chief)
    assert other.claim()
    start(chief)
    assert sum(1 for _ in iter(lambda: chief.session.run(chief.claims._claim) < 19, False)) == 18
    v1.Session.reset(target)
    chief.session = v1.Session(target, graph=chief.session.graph)
    chief.session.run(chief.init)
    start(chief)
    assert chief.session.run(chief.claims._claim) == 0


def test_at_the_end_a_step_function_stops(workers):
    chief, _ = workers
    for _ in range(20):
        chief.session.run(chief.add)
    start(chief)

    class Context:
        session = chief.session

        def request_stop(self) -> None:
            raise StopIteration

    with pytest.raises(StopIteration):
        chief.claims.step(None)(Context())
