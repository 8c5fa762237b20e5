"""What a task says of itself on the boards, while its heart beats."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ps_train.config.job import Job
from ps_train.coordination import records
from ps_train.coordination.heartbeat import Heartbeat
from ps_train.coordination.lease import Lease
from ps_train.coordination.records import TaskState, TaskStatus, new_task_status
from ps_train.errors import LostTaskError

KEY = records.task_key("worker:1")


class Notebook:
    """A board in this process; writing takes a while, as it does elsewhere."""

    incarnation = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.history: list[str] = []
        self.answers = True
        self._value = ""
        self._lock = threading.Lock()

    def compare_and_set(self, key: str, expected: str, value: str) -> str:
        assert key == KEY
        before = self._value
        if before == expected:
            self.set(key, value)
        return before

    def set(self, key: str, value: str) -> None:
        assert key == KEY
        time.sleep(random.uniform(0, 0.003))
        if not self.answers:
            raise LostTaskError(f"{self.name} does not answer")
        with self._lock:
            self._value = value
            self.history.append(TaskStatus.from_json(value).state)


Said = tuple[Heartbeat, list[Notebook], Callable[[], None]]


@pytest.fixture
def said() -> Iterator[Said]:
    """A heart that beats all the time, its boards, and what waits for some more beats on every board."""
    boards = [Notebook("ps:0"), Notebook("ps:1")]
    some: Any = boards
    lease = Lease(some[0], new_task_status("worker:1"))
    lease.acquire(lease_secs=1)
    unused: Any = None
    heart = Heartbeat(some, unused, lease, unused, Job(), unused)
    stopped = threading.Event()

    def beat(index: int) -> None:
        while not stopped.is_set():
            heart.publish(index)

    def some_beats() -> None:
        before, deadline = [len(board.history) for board in boards], time.monotonic() + 10
        while any(len(board.history) < start + 3 for board, start in zip(boards, before, strict=True)):
            assert time.monotonic() < deadline, "no heart beats"
            time.sleep(0.001)

    threads = [threading.Thread(target=beat, args=[index]) for index in range(2)]
    for thread in threads:
        thread.start()
    yield heart, boards, some_beats
    stopped.set()
    for thread in threads:
        thread.join()


def test_a_beat_takes_back_nothing_that_another_thread_says(said: Said) -> None:
    heart, boards, some_beats = said
    for number in range(60):
        state = (TaskState.TRAINING, TaskState.WAITING)[number % 2]
        heart.set_state(state)
        some_beats()
        assert [board.history[-1] for board in boards] == [state, state]


def test_after_a_farewell_no_board_shows_an_older_state(said: Said) -> None:
    heart, boards, some_beats = said
    for _ in range(30):
        heart.set_state(TaskState.TRAINING)
        some_beats()
        heart.announce_leaving()
        said_by_then = [len(board.history) for board in boards]
        some_beats()
        for board, since in zip(boards, said_by_then, strict=True):
            assert set(board.history[since - 1 :]) == {TaskState.LEAVING}, board.name


def test_what_could_not_be_written_is_written_by_the_next_beat() -> None:
    board: Any = Notebook("ps:0")
    lease = Lease(board, new_task_status("worker:1"))
    lease.acquire(lease_secs=1)
    board.answers = False
    with pytest.raises(LostTaskError):
        lease.renew(TaskState.WAITING)
    board.answers = True
    assert lease.renew()
    assert board.history[-1] == TaskState.WAITING
