"""Tickets: the number of steps begun never passes the last step, and lost tickets are given again."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st

from ps_train.cluster.membership.presence import Limits
from ps_train.cluster.membership.records import TaskState, TaskStatus, task_key
from ps_train.cluster.membership.step_budget import Ledger, StepTickets


class Store:
    """A key-value store in this process."""

    def __init__(self):
        self.values = {}

    def get(self, key):
        return self.values.get(key, "")

    def compare_and_set(self, key, expected, value):
        before = self.get(key)
        if before == expected:
            self.values[key] = value
        return before

    def items(self):
        return dict(self.values)

    def write_status(self, task, state, beat=1):
        self.values[task_key(task)] = TaskStatus(task, "p", "host-b", 1, state, beat).to_json()


def client(store, task):
    store.write_status(task, TaskState.TRAINING)
    return StepTickets(store, f"{task}/p", num_workers=2, limits=Limits())


def test_a_claim_leaves_tickets_for_the_others():
    ledger = Ledger(0, {}).claim("a", wanted=50, last_step=100, num_workers=2)
    assert ledger == Ledger(25, {"a": 25})
    assert ledger.claim("b", 50, 100, 2) == Ledger(43, {"a": 25, "b": 18})


def test_the_last_tickets_are_given_one_by_one():
    ledger = Ledger(98, {"b": 1}).claim("a", 50, 100, 2)
    assert ledger == Ledger(99, {"b": 1, "a": 1})
    assert Ledger(100, {"b": 1, "a": 1}).claim("a", 50, 100, 2) == Ledger(100, {"b": 1})


def test_a_ledger_is_a_text_and_back():
    ledger = Ledger(7, {"a": 2})
    assert Ledger.from_json(ledger.to_json()) == ledger


@hypothesis.given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=60), st.integers(1, 30))
def test_no_more_tickets_are_given_than_steps_remain(claims, last_step):
    ledger, begun = Ledger(0, {}), 0
    for owner, wanted in claims:
        ledger = ledger.claim(owner, wanted, last_step, num_workers=3)
        begun += ledger.held.get(owner, 0)
        assert begun == ledger.given <= last_step


def test_two_workers_make_exactly_the_steps_of_the_job():
    store, step = Store(), 0
    workers = [client(store, "worker:0"), client(store, "worker:1")]
    for _ in range(20):
        for worker in workers[: 2 if step < 8 else 1]:
            count = worker.claim(10, 2, lambda made=step: made) if step < 10 else 0
            step += count
        if step == 8:
            workers[1].give_back(0)
    assert step == 10
    assert workers[0].claim(10, 2, lambda: step) == workers[1].claim(10, 2, lambda: step) == 0


def test_tickets_that_are_given_back_are_given_again():
    store = Store()
    first, second = client(store, "worker:0"), client(store, "worker:1")
    assert first.claim(4, 1, lambda: 0) == 1
    first.give_back(1)
    assert Ledger.from_json(store.get("steps")) == Ledger(0, {})
    assert sum(second.claim(4, 1, lambda made=made: made) for made in range(4)) == 4


def test_tickets_of_a_worker_that_died_are_given_again():
    store = Store()
    first, second = client(store, "worker:0"), client(store, "worker:1")
    assert first.claim(2, 1, lambda: 0) == second.claim(2, 1, lambda: 0) == 1
    store.write_status("worker:0", TaskState.LEFT, beat=2)
    assert second.claim(2, 1, lambda: 1) == 1  # the step of worker 0 was never made
    assert second.claim(2, 1, lambda: 2) == 0


def test_a_worker_waits_while_another_may_still_make_the_last_step():
    store, reads = Store(), []
    first, second = client(store, "worker:0"), client(store, "worker:1")
    assert first.claim(1, 1, lambda: 0) == 1

    def read():
        reads.append(0)
        return 0 if len(reads) < 3 else 1

    assert second.claim(1, 1, read) == 0 and len(reads) == 3


def test_a_restored_model_is_counted_from_its_step():
    store = Store()
    worker = client(store, "worker:0")
    worker.claim(100, 1, lambda: 50)
    worker.rebase(10)
    assert Ledger.from_json(store.get("steps")).given == 51  # a step may be under way
    worker.give_back(0)
    worker.rebase(10)
    assert Ledger.from_json(store.get("steps")).given == 10
