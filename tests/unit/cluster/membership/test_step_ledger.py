"""The ledger: the steps begun never pass the last step, and those of dead holders are given again, soon."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from ps_train.base.errors import LostTaskError
from ps_train.cluster.membership import step_ledger
from ps_train.cluster.membership.records import TaskState, TaskStatus, new_task_status, task_key
from ps_train.cluster.membership.step_ledger import Ledger, StepLedger


class Store:
    """A key-value store in this process."""

    name = "ps:0 (here)"

    def __init__(self):
        self.values, self.lock = {}, threading.Lock()

    def get(self, key):
        return self.values.get(key, "")

    def set(self, key, value):
        self.values[key] = value

    def compare_and_set(self, key, expected, value):
        with self.lock:
            before = self.values.get(key, "")
            if before == expected:
                self.values[key] = value
            return before

    def items(self):
        return dict(self.values)

    def write(self, status):
        self.values[task_key(status.task)] = status.to_json()

    @property
    def ledger(self):
        return Ledger.from_json(self.get("steps/"))


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(step_ledger, "SETTLE_SECS", 0.0)
    return Store()


def status(task, state=TaskState.TRAINING, process="p"):
    return TaskStatus(task, process, "host-b", 1, state)


def client(store, task, last_step, sharers=2):
    store.write(status(task))
    return StepLedger(store, f"{task}/p", last_step, sharers)


def clients(store, last_step, step=0):
    found = [client(store, f"worker:{index}", last_step) for index in range(2)]
    found[0].start_at(step)
    return found


def never(status):
    return False


def claim(worker, step, wanted=1):
    """Takes steps as a script does, at a global step that no other worker changes."""
    return worker.take_or_wait(wanted, lambda: step, never)


def test_some_steps_are_left_for_the_others():
    ledger = Ledger(0, {}).give("a", wanted=50, last_step=100, sharers=2)
    assert ledger == Ledger(25, {"a": 25})
    assert ledger.give("b", 50, 100, 2) == Ledger(43, {"a": 25, "b": 18})


def test_portions_before_a_checkpoint_are_larger_as_there_are_many():
    ledger = Ledger(0, {}, limit=100).give("a", wanted=50, last_step=1000, sharers=2)
    assert ledger == Ledger(50, {"a": 50}, 100)
    assert Ledger(80, {}, 100).give("b", 32, 1000, 2).given == 90
    assert Ledger(90, {}, 100).give("b", 32, 1000, 2).given == 98, "a quarter of what is wanted"
    assert Ledger(98, {}, 100).give("b", 1, 1000, 2).given == 99


def test_the_last_steps_are_given_one_by_one():
    ledger = Ledger(98, {"b": 1}).give("a", 50, 100, 2)
    assert ledger == Ledger(99, {"b": 1, "a": 1})
    assert Ledger(100, {"b": 1, "a": 1}).give("a", 50, 100, 2) == Ledger(100, {"b": 1, "a": 1})


def test_steps_that_are_made_together_are_given_together():
    ledger = Ledger(0, {}).give("a", wanted=50, last_step=100, sharers=2, portion=8)
    assert ledger == Ledger(24, {"a": 24}), "a quarter of the steps is 25"
    assert ledger.give("b", 50, 100, 2, portion=8) == Ledger(40, {"a": 24, "b": 16})
    assert Ledger(90, {}).give("a", 50, 100, 2, portion=8).given == 98, "a portion is the least"
    assert Ledger(98, {}).give("a", 50, 100, 2, portion=8).given == 100, "and the last ones are fewer"
    assert Ledger(0, {}).give("a", 3, 100, 2, portion=8).given == 3, "who asks for fewer gets them"


def test_portions_before_a_checkpoint_are_of_steps_that_are_made_together():
    assert Ledger(0, {}, limit=100).give("a", 64, 1000, 2, portion=8).given == 48
    assert Ledger(92, {}, limit=100).give("a", 64, 1000, 2, portion=8).given == 100
    assert Ledger(96, {}, limit=100).give("a", 64, 1000, 2, portion=8).given == 100


def test_a_holder_at_rest_is_in_no_ledger():
    ledger = Ledger(10, {"a": 5, "b": 1})
    assert ledger.take_back("a", unused=2, made=3) == Ledger(8, {"b": 1})
    assert ledger.without("a") == Ledger(10, {"b": 1})


def test_a_ledger_is_a_text_and_back():
    ledger = Ledger(7, {"a": 2})
    assert Ledger.from_json(ledger.to_json()) == ledger


CALLS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9)), max_size=60)


@hypothesis.given(CALLS, st.integers(1, 30))
def test_what_is_made_and_held_is_what_was_given_and_never_passes_the_end(calls, last_step):
    ledger, made = Ledger(0, {}), 0
    for owner, wanted, unused in calls:
        held = ledger.held.get(owner, 0)
        unused = min(unused, held)
        ledger = ledger.take_back(owner, unused, held - unused).give(owner, wanted, last_step, sharers=3)
        made += held - unused
        assert made + sum(ledger.held.values()) == ledger.given <= last_step


@hypothesis.given(
    st.integers(2, 9), st.integers(1, 200), st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6)))
)
def test_all_but_the_last_steps_are_given_in_whole_portions(portion, last_step, calls):
    ledger = Ledger(0, {})
    for owner, rounds in [*calls, *[("a", 3)] * last_step]:
        before, ledger = ledger, ledger.give(owner, rounds * portion, last_step, sharers=3, portion=portion)
        assert (ledger.given - before.given) % portion == 0 or ledger.given == last_step
        assert ledger.given > before.given or before.given == last_step, "nobody waits for what is left"
    assert ledger.given == last_step


def test_steps_are_added_to_those_that_are_under_way(store):
    first, second = clients(store, 1000)
    assert [first.take(10), first.take(20), second.take(5)] == [10, 20, 5]
    assert store.ledger == Ledger(35, {"worker:0/p": 30, "worker:1/p": 5})
    first.made(10)
    assert store.ledger.held["worker:0/p"] == 30, "it is told with the next message"
    first.give_back(4)
    assert store.ledger == Ledger(31, {"worker:0/p": 16, "worker:1/p": 5})
    assert second.left() == 969


def test_no_step_is_given_past_a_limit_before_it_is_raised(store):
    first, second = clients(store, 1000)
    first.allow(20)
    taken = []
    while count := first.take(50):
        taken.append(count)
    assert sum(taken) == 20 == store.ledger.given and second.take(5) == 0
    assert second.is_paused() and second.left() == 980
    first.made(20)
    first.give_back(0)
    second.allow(40)
    assert not second.is_paused() and second.take(5) == 5 and store.ledger.limit == 40
    second.allow(0)
    assert second.take(500) == 243 and not second.is_paused()  # a fair share of the 975 steps that are left


def test_a_limit_beyond_the_last_step_holds_no_steps_back(store):
    worker, _ = clients(store, 10, step=9)
    worker.allow(20)
    assert worker.take(5) == 1 and worker.take(5) == 0 and not worker.is_paused()


def test_the_steps_of_a_dead_worker_come_back_below_the_limit(store, monkeypatch):
    monkeypatch.setattr(step_ledger, "SETTLE_SECS", 0.0)
    first, second = clients(store, 1000)
    first.allow(4)
    while second.take(9):
        pass
    assert not first.reclaim(lambda: 2, never)
    assert first.reclaim(lambda: 2, lambda status: status.task == "worker:1")
    assert store.ledger == Ledger(2, {}, 4) and first.take(1) == 1


def test_counts_may_be_numbers_of_numpy(store):
    worker, _ = clients(store, 1000)
    assert worker.take(np.int64(10)) == 10
    worker.made(np.int64(3))
    worker.give_back(np.int64(2))
    assert store.ledger == Ledger(8, {"worker:0/p": 5})


def test_a_step_costs_one_message_a_block_while_no_other_worker_takes(store):
    worker, _ = clients(store, 1000)
    worker.take(1)
    calls = []
    store.get = store.items = lambda *args: pytest.fail("a read")
    write = store.compare_and_set
    store.compare_and_set = lambda *args: calls.append(args) or write(*args)
    for _ in range(5):
        worker.made(worker.take(20))
    assert len(calls) == 5


def test_two_workers_make_exactly_the_steps_of_the_job_in_rounds(store):
    workers = [StepLedger(store, f"worker:{index}/p", 103, 2, portion=8) for index in range(2)]
    for index in range(2):
        store.write(status(f"worker:{index}"))
    workers[0].start_at(0)
    taken = []
    while counts := [count for worker in workers if (count := worker.take(16))]:
        taken += counts
    assert sum(taken) == 103 and sorted(count % 8 for count in taken)[:-1] == [0] * (len(taken) - 1)


def test_two_workers_make_exactly_the_steps_of_the_job(store):
    workers, made, lock = clients(store, 400), [0, 0], threading.Lock()

    def work(index):
        while count := workers[index].take_or_wait(7, lambda: sum(made), never):
            for _ in range(count):
                with lock:
                    made[index] += 1
            workers[index].made(count)

    threads = [threading.Thread(target=work, args=[index]) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(made) == 400 and store.ledger == Ledger(400, {})


def test_steps_that_are_given_back_are_given_again(store):
    first, second = clients(store, 4)
    assert first.take(1) == 1
    first.give_back(1)
    assert store.ledger == Ledger(0, {})
    for step in range(4):
        assert claim(second, step) == 1
        second.made(1)
    assert claim(second, 4) == 0


DEAD = {
    "left": [status("worker:0", TaskState.LEFT)],
    "failed": [status("worker:0", TaskState.FAILED)],
    "at rest": [status("worker:0", TaskState.WAITING)],
    "replaced": [status("worker:0", process="another")],
}


@pytest.mark.parametrize("statuses", DEAD.values(), ids=DEAD)
def test_steps_of_a_worker_that_is_gone_are_given_again(store, statuses):
    first, second = clients(store, 2)
    assert first.take(1) == second.take(1) == 1
    second.made(1)
    for one in statuses:
        store.write(one)
    assert claim(second, 1) == 1  # the step of worker 0 was never made
    second.made(1)
    assert claim(second, 2) == 0


def test_steps_of_a_process_of_this_machine_that_has_exited_are_given_again(store):
    first, second = clients(store, 2)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        holder = dataclasses.replace(new_task_status("worker:0"), process_id="p", pid=process.pid, started="")
        store.write(dataclasses.replace(holder, state=TaskState.TRAINING))
        assert first.take(1) == second.take(1) == 1
        second.made(1)
        second.take(1)
        assert not second.reclaim(lambda: 1, never), "it lives"
        process.kill()
    assert second.reclaim(lambda: 1, never)


def test_steps_of_a_silent_worker_are_given_again(store):
    first, second = clients(store, 2)
    assert first.take(1) == second.take(1) == 1
    second.made(1)
    assert second.take(1) == 0 and not second.reclaim(lambda: 1, never)
    assert second.reclaim(lambda: 1, lambda status: status.task == "worker:0")


def test_an_update_of_a_dead_worker_that_still_comes_is_counted(store, monkeypatch):
    monkeypatch.setattr(step_ledger, "SETTLE_SECS", 0.3)
    first, second = clients(store, 3)
    assert first.take(1) == second.take(1) == second.take(1) == 1
    second.made(2)
    store.write(status("worker:0", TaskState.FAILED))
    assert second.take(1) == 0
    begun = time.monotonic()
    assert not second.reclaim(lambda: 2, never)
    assert not second.reclaim(lambda: 3, never), "it was made after all"
    assert claim(second, 2) == 1 and time.monotonic() - begun >= 0.3


def test_a_worker_waits_while_another_may_still_make_the_last_step(store):
    first, second = clients(store, 1)
    assert first.take(1) == 1
    reads = []

    def read():
        reads.append(0)
        return 0 if len(reads) < 3 else 1

    assert second.take_or_wait(1, read, never) == 0 and len(reads) == 3


def test_steps_are_not_given_again_if_somebody_has_taken_some_since(store):
    first, second = clients(store, 2)
    assert first.take(1) == first.take(1) == 1
    store.write(status("worker:0", TaskState.FAILED))

    def take_first():
        store.set("steps/", Ledger(2, {"worker:2/p": 1}).to_json())
        return 0

    assert not second.reclaim(take_first, never)
    assert store.ledger == Ledger(2, {"worker:2/p": 1})


def test_a_restored_model_is_counted_from_its_step(store):
    first, second = clients(store, 100, step=50)
    first.take(1), second.take(1)
    second.join(lambda: 10)
    assert store.ledger == Ledger(52, {"worker:0/p": 1}), "a step may be under way"
    first.join(lambda: 10)
    assert store.ledger == Ledger(10, {})


def test_who_joins_first_begins_the_ledger(store):
    worker = client(store, "worker:0", 100)
    worker.join(lambda: 7)
    assert store.ledger == Ledger(7, {})


def test_the_step_is_read_after_the_record(store):
    first, second = clients(store, 100)
    reads = []

    def read():
        if not reads:
            first.take(5)
        reads.append(0)
        return 0

    second.join(read)
    assert store.ledger == Ledger(5, {"worker:0/p": 5})


def test_what_a_lost_call_took_is_forgotten_and_comes_back_at_the_end(store):
    first, second = clients(store, 2)
    first.take(1), first.take(1)
    first.forget()
    assert store.ledger == Ledger(2, {}) and second.take(1) == 0
    assert second.reclaim(lambda: 0, never) and store.ledger == Ledger(0, {})


def test_a_ledger_that_is_lost_with_its_ps_is_an_error(store):
    first, _ = clients(store, 100)
    first.take(1)
    store.values.clear()
    for call in (lambda: first.take(1), first.left, first.forget, lambda: first.reclaim(lambda: 0, never)):
        with pytest.raises(LostTaskError, match=r"ps:0 \(here\) was restarted"):
            call()
