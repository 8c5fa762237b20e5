"""A script's process is seen by every ps, and a ps learns when the job of a script is over."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ps_train.base.errors import JobFailedError, LostTaskError, UnreachableError
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership import presence as module
from ps_train.cluster.membership.connect import NotReadyError
from ps_train.cluster.membership.presence import AbsenceLimits, JobEndDetector, ScriptPresence, wait_for_end
from ps_train.cluster.membership.records import TaskState, TaskStatus, task_key
from tests.support.machine.processes import eventually
from tests.support.status.tasks import task_status

LIMITS = AbsenceLimits(silent_secs=60, restart_secs=10, absent_secs=30, startup_secs=600)
TRAINING, LEFT, FAILED, SERVING = TaskState.TRAINING, TaskState.LEFT, TaskState.FAILED, TaskState.SERVING


class Ps:
    """A ps that remembers what was written; it can be gone, or silent."""

    def __init__(self) -> None:
        self.written: list[tuple[str, TaskStatus]] = []
        self.others: list[TaskStatus] = []
        self.is_gone, self.answers = False, threading.Event()
        self.answers.set()

    def set(self, key: str, value: str) -> None:
        self.answers.wait(30)
        if self.is_gone:
            raise LostTaskError("ps:0 is gone")
        self.written.append((key, TaskStatus.from_json(value)))

    def items(self) -> dict[str, str]:
        return {task_key(status.task): status.to_json() for status in self.others}

    @property
    def states(self) -> list[str]:
        return [status.state for _, status in self.written]


@pytest.fixture
def ps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Ps]]:
    """Two ps, at the ports 1 and 2."""
    found = [Ps(), Ps()]

    def check_reachable(address: Address) -> str:
        if found[address.port - 1].is_gone:
            raise NotReadyError("connection refused")
        return "127.0.0.1"

    monkeypatch.setattr(module, "HEARTBEAT_SECS", 0.01)
    monkeypatch.setattr(module, "check_reachable", check_reachable)
    monkeypatch.setattr(module, "ps_store", lambda address, index: found[index])
    monkeypatch.setattr(module, "_failed", threading.Event())
    yield found
    for one in found:
        one.answers.set()


def present() -> ScriptPresence:
    return ScriptPresence("worker:1", [Address("localhost", 1), Address("localhost", 2)], LIMITS)


def test_every_ps_sees_a_heartbeat_that_moves_until_the_worker_leaves(ps: list[Ps]) -> None:
    presence = present()
    for one in ps:
        eventually(lambda one=one: len(one.written) >= 3, 10)
    presence.leave()
    for one in ps:
        assert {key for key, _ in one.written} == {task_key("worker:1")}
        beats = [status.heartbeat for _, status in one.written]
        assert beats == list(range(1, len(beats) + 1))
        assert set(one.states) == {TRAINING, LEFT} and one.states[-1] == LEFT


def test_a_state_is_written_to_every_ps_at_once(ps: list[Ps]) -> None:
    worker = present()
    worker.announce(TaskState.INPUT_ENDED)
    assert worker.state == TaskState.INPUT_ENDED
    assert all(one.written[-1][1].state == TaskState.INPUT_ENDED for one in ps)
    worker.leave()


def test_the_end_of_another_task_is_known_until_it_is_started_again(ps: list[Ps]) -> None:
    presence = present()
    states = {"worker:0": LEFT, "worker:2": TRAINING, "worker:3": SERVING, "worker:4": FAILED}
    ps[0].others = [task_status(task, 1, state, "first") for task, state in states.items()]
    eventually(lambda: presence.has_ended("worker:0"), 10)
    assert not any(presence.has_ended(f"worker:{index}") for index in (2, 3, 4, 5))  # one that failed may come again
    ps[0].others = [task_status("worker:0", 1, TRAINING, "second")]
    eventually(lambda: not presence.has_ended("worker:0"), 10)
    presence.leave()


def test_a_process_that_an_exception_ends_leaves_as_failed(ps: list[Ps]) -> None:
    presence = present()
    module._failed.set()
    presence.leave()
    assert [one.states[-1] for one in ps] == [FAILED, FAILED]


def test_a_ps_that_is_lost_and_comes_back_is_told_again(ps: list[Ps]) -> None:
    lost, other = ps
    lost.is_gone = True
    presence = present()
    eventually(lambda: len(other.written) >= 3, 10)
    assert not lost.written and presence.is_silent(0) and not presence.is_silent(1)
    lost.is_gone = False
    eventually(lambda: bool(lost.written), 10)
    lost.is_gone = True
    eventually(lambda: presence.is_silent(0), 10)
    lost.is_gone = False
    presence.leave()
    assert lost.states[-1] == other.states[-1] == LEFT


def test_a_ps_that_does_not_answer_does_not_keep_a_process_from_its_end(
    ps: list[Ps], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SILENT_SECS", 0.05)
    ps[0].answers.clear()
    start = time.monotonic()
    present().leave()
    assert time.monotonic() - start < 20 and ps[1].states[-1] == LEFT


def detector(*tasks):
    return JobEndDetector(tasks, LIMITS, now=0.0)


def some(beat=1, process="p", **states):
    """Statuses of workers: w0=TRAINING."""
    return [task_status(f"worker:{name[1:]}", beat, state, process) for name, state in states.items()]


def test_the_job_goes_on_while_a_worker_runs():
    found = detector("worker:0", "worker:1")
    assert found.update(some(w0=LEFT, w1=TRAINING), 1.0) == ""
    assert found.update(some(2, w0=LEFT, w1=TRAINING), 59.0) == ""


def test_the_job_is_over_when_all_workers_have_ended():
    found = detector("worker:0", "worker:1")
    assert found.update(some(w0=LEFT, w1=LEFT), 1.0) == ("the job is over: worker:0 ended, worker:1 ended")


def test_a_silent_worker_counts_as_gone_after_its_limit_and_not_before():
    found = detector("worker:0", "worker:1")
    statuses = some(w0=LEFT, w1=TRAINING)
    assert [found.update(statuses, now) for now in (1.0, 60.9)] == ["", ""]
    assert "worker:1 fell silent" in found.update(statuses, 61.0)


def test_a_failed_worker_may_be_restarted():
    found = detector("worker:0")
    assert found.update(some(w0=FAILED), 1.0) == ""
    assert found.update(some(process="q", w0=TRAINING), 10.0) == ""
    assert "ended" in found.update(some(process="q", w0=LEFT), 12.0)


def test_a_job_in_which_no_worker_ended_well_has_failed():
    found = detector("worker:0", "worker:1")
    statuses = some(w0=FAILED, w1=TRAINING)
    assert found.update(statuses, 1.0) == ""
    with pytest.raises(JobFailedError, match=r"worker:0 failed, worker:1 fell silent\.$"):
        found.update(statuses, 61.0)


def test_a_worker_that_never_came_is_waited_for_a_while_after_the_others():
    found = detector("worker:0", "worker:1")
    assert [found.update(some(w0=LEFT), now) for now in (500.0, 529.0)] == ["", ""]
    assert "worker:1 never came" in found.update(some(w0=LEFT), 530.0)


def test_the_task_that_places_work_on_serving_ones_may_come_as_late_as_any_first_task():
    found = detector("worker:0", "worker:1")
    assert [found.update(some(w1=SERVING), now) for now in (1.0, 40.0, 599.0)] == ["", "", ""]
    assert found.update(some(w0=TRAINING, w1=SERVING), 599.5) == ""
    assert "worker:0 ended, worker:1 ended" in found.update(some(w0=LEFT, w1=SERVING), 650.0)


def test_a_late_worker_starts_the_wait_again():
    found = detector("worker:0", "worker:1")
    assert found.update(some(w0=LEFT), 1.0) == ""
    assert found.update(some(w0=LEFT, w1=TRAINING), 40.0) == ""
    assert "worker:1 ended" in found.update(some(9, w0=LEFT, w1=LEFT), 41.0)


def test_a_job_to_which_no_worker_comes_is_given_up():
    found = detector("worker:0")
    assert found.update([], 600.0) == ""
    with pytest.raises(UnreachableError, match="no worker has come within 600s"):
        found.update([], 601.0)


def test_a_session_waits_for_every_ps_but_not_for_ever():
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # nobody listens there
        ps = [Address("127.0.0.1", one.getsockname()[1]) for one in (there, reserved)]
        start = time.monotonic()
        member(ps[:1]).wait_for_ps(60.0)
        with pytest.raises(UnreachableError, match=rf"gave up after 0\.3s waiting for ps:1 \({ps[1]}\)"):
            member(ps).wait_for_ps(0.3)
        assert 0.3 <= time.monotonic() - start < 30


def member(ps):
    """A member that announces itself to nobody."""
    found = ScriptPresence("worker:0", [], LIMITS)
    found.leave()
    found._ps, found._names = ps, [f"ps:{index} ({address})" for index, address in enumerate(ps)]
    return found


class EndingPs:
    """The store of a ps that answers once and has then ended."""

    name = "ps:0 (a:1)"

    def __init__(self):
        self.calls = 0

    def items(self):
        self.calls += 1
        if self.calls != 2:  # the ps has not begun, and then it has ended
            raise LostTaskError("it does not answer")
        return {}


def test_a_task_that_only_serves_ends_when_the_ps_of_its_job_has_ended():
    store = EndingPs()
    reason = wait_for_end(store, JobEndDetector(["worker:0"], AbsenceLimits(), time.monotonic()), 0.01, lost_secs=0.1)
    assert reason == "ps:0 (a:1) has ended" and store.calls > 5
