"""A worker of a rack without servers: it takes the role or finds who has it, lets others in, and sees losses."""

from __future__ import annotations

import logging
import threading
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tensorflow as tf

from ps_train.base.errors import LostTaskError, UnreachableError
from ps_train.cluster.membership.connect import NotReadyError
from ps_train.cluster.membership.records import TaskState
from ps_train.cluster.membership.succession import Aggregator, aggregator_key
from ps_train.cluster.sessions.calls import UNBOUNDED_CALL
from ps_train.config.job import Job
from ps_train.training.duties import rack_member
from ps_train.training.duties.rack_member import RackMember, rack_member_of
from tests.support.machine.processes import eventually
from tests.support.status.tasks import store_of, task_status

WORKERS = ("worker:0", "worker:1", "worker:2")
JOB = Job(rack="a", update="sync", max_steps=3, heartbeat_timeout_secs=10.0, recovery_timeout_secs=30.0)
KEY = aggregator_key("a")


class Store(dict[str, str]):
    """The records of ps 0; `before` is called before each write."""

    def __init__(self) -> None:
        super().__init__(store_of(*map(task_status, WORKERS)))
        self.before: Callable[[], None] = lambda: None

    def items(self) -> dict[str, str]:  # type: ignore[override]
        return dict(self)

    def compare_and_set(self, key: str, expected: str, value: str) -> str:
        self.before()
        found = self.get(key, "")
        if found == expected:
            self[key] = value
        return found


class Ops:
    """The operations of a rack."""

    relay, relayed_step, leave, leaver, is_published = "relay", "relayed", "leave", "leaver", "published"

    def prepare(self, session: Session) -> None:
        session.calls.append("prepare")


class Session:
    """A session of a rack, which returns what the test says."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.published, self.relays = [True], iter([1, 2, 3])
        self.relay_error: Exception | None = None
        self.is_silent = False

    def run(self, fetches: Any, feeds: Any = None, options: Any = None) -> Any:
        if fetches == "published":
            return self.published.pop(0) if len(self.published) > 1 else self.published[0]
        if isinstance(fetches, dict):
            assert options is UNBOUNDED_CALL, "a round takes as long as its workers"
            self.calls.append("relay")
            if self.relay_error is not None:
                raise self.relay_error
            return {"step": next(self.relays)}
        self.calls.append((fetches, feeds["leaver"]))
        if self.is_silent:
            raise tf.errors.UnavailableError(None, None, "lost")
        return None


class Rack:
    """Store, operations and members of one rack."""

    def __init__(self) -> None:
        self.store, self.session, self.stopping = Store(), Session(), False
        self.started: list[tuple[str, int]] = []
        self.now, self.slept = 100.0, list[float]()

    def sleep(self, secs: float) -> None:
        self.slept.append(secs)
        time.sleep(0.001)

    def beat(self, count: int, *members: RackMember, silent: Sequence[str] = ()) -> None:
        """Seconds pass, in which all workers but some give signs of life."""
        for _ in range(count):
            self.now += 1.0
            living = (task_status(task, heartbeat=int(self.now)) for task in WORKERS if task not in silent)
            self.store.update(store_of(*living))
            for member in members:
                member.update(self.store.items())

    def member(self, index: int = 0, port: int = 0) -> RackMember:
        store: Any = self.store
        task = WORKERS[index]
        process = task_status(task).process_id
        return RackMember(JOB, "a", WORKERS, task, "h", port, process, store, lambda: self.stopping)

    def start_server(self, host: str, port: int, job: Job) -> tuple[str, str]:
        self.started.append((host, port))
        return "server", f"{host}:{port or 4000 + len(self.started)}"

    def set_role(self, task: str, term: str = "t", is_ready: bool = True, process: str = "a process") -> Aggregator:
        role = Aggregator(task, f"{process} of {task}", "h:7", term, is_ready)
        self.store[KEY] = role.to_json()
        return role

    @property
    def role(self) -> Aggregator:
        return Aggregator.from_json(self.store[KEY])

    def begin(self, member: RackMember) -> None:
        ops: Any = Ops()
        member.begin(self.session, ops)  # type: ignore[arg-type]

    def await_values(self, member: RackMember) -> None:
        ops: Any = Ops()
        member.await_values(self.session, ops)  # type: ignore[arg-type]


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch) -> Rack:
    made = Rack()
    monkeypatch.setattr(rack_member, "start_rack_server", made.start_server)
    monkeypatch.setattr(rack_member, "check_reachable", lambda address: "ip")
    monkeypatch.setattr(rack_member, "time", types.SimpleNamespace(monotonic=lambda: made.now, sleep=made.sleep))
    return made


def test_the_first_worker_takes_the_role_and_the_others_wait_until_it_lets_them_in(
    rack: Rack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    member, other = rack.member(1), rack.member(2)
    link = member.join()
    assert link is not None and link.is_own and str(link.address) == "h:4001" and rack.started == [("h", 0)]
    assert (rack.role.task, rack.role.address, rack.role.is_ready) == ("worker:1", "h:4001", False)
    assert not member.session_is_over()
    assert other._look("") is None
    rack.begin(member)
    assert rack.role.is_ready and rack.session.calls == ["prepare"]
    found = other.join()
    assert found is not None and not found.is_own and found.role == rack.role and len(rack.started) == 1
    assert "worker:1 adds up the gradients of rack a now" in caplog.messages
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    rack.begin(other)
    assert rack.session.calls == ["prepare"], "only the aggregator makes the state"
    assert member.targets() == other.targets() == {rack_member.RACK_JOB: "grpc://h:4001"}


def test_a_port_that_was_given_serves_from_the_beginning_and_in_each_term(rack: Rack) -> None:
    member = rack.member(0, port=77)
    assert rack.started == [("h", 77)]
    first = member.join()
    rack.begin(member)
    second = member.join()  # its session was lost
    assert first is not None and second is not None and first.role.term != second.role.term
    assert rack.started == [("h", 77)] and str(second.address) == "h:77" and not rack.role.is_ready


def test_of_two_workers_that_claim_at_once_one_has_the_role(rack: Rack) -> None:
    member = rack.member(0)
    rack.store.before = lambda: rack.set_role("worker:2") and None
    link = member.join()
    assert link is not None and not link.is_own and link.role.task == "worker:2"


def test_another_takes_the_place_of_one_that_ended_and_waits_for_none_that_is_gone(
    rack: Rack, caplog: pytest.LogCaptureFixture
) -> None:
    rack.set_role("worker:1")
    rack.store.update(store_of(*(task_status(task, state=TaskState.LEFT) for task in WORKERS[1:])))
    member = rack.member(0)
    link = member.join()
    assert link is not None and link.is_own
    assert "worker:0 adds up the gradients of rack a now, instead of worker:1" in [
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    ]
    rack.begin(member)
    assert rack.session.calls == ["prepare", ("leave", 1), ("leave", 2)]


def test_a_new_process_of_the_former_aggregator_is_not_gone(rack: Rack, caplog: pytest.LogCaptureFixture) -> None:
    rack.set_role("worker:0", process="an earlier process")
    member = rack.member(0)
    assert member.join() is not None
    rack.begin(member)
    assert rack.session.calls == ["prepare"] and "instead of" not in caplog.text


def test_a_role_that_was_taken_meanwhile_ends_the_session(rack: Rack) -> None:
    member = rack.member(0)
    member.join()
    taken = rack.set_role("worker:2", "another")
    with pytest.raises(tf.errors.AbortedError, match="another worker has taken the role of rack a"):
        rack.begin(member)
    assert rack.role == taken


def test_a_process_that_ends_waits_for_no_aggregator(rack: Rack) -> None:
    rack.set_role("worker:1", is_ready=False)
    rack.stopping = True
    assert rack.member(0).join() is None and rack.member(0).targets() == {}


def test_a_reading_from_before_its_own_role_does_not_end_the_session(rack: Rack) -> None:
    rack.set_role("worker:1")
    rack.store.update(store_of(task_status("worker:1", state=TaskState.LEFT)))
    member, before = rack.member(0), rack.store.items()
    member.join()
    member.update(before)  # by the heartbeat's thread
    rack.begin(member)
    assert not member.session_is_over()


def test_a_ps_that_does_not_answer_is_asked_again(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rack.set_role("worker:1")
    left, items = [3], rack.store.items

    def asked() -> dict[str, str]:
        left[0] -= 1
        if left[0] > 0:
            raise LostTaskError("ps:0 does not answer")
        return items()

    monkeypatch.setattr(rack.store, "items", asked)
    assert rack.member(0).join() is not None and left == [0] and rack.slept == [0.05, 0.05]
    assert caplog.messages == ["the aggregator of rack a is not known: ps:0 does not answer"] * 2


class Unreachable:
    """An aggregator that lives, and is not reached while `refuses`."""

    def __init__(self, rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rack, self.member, self.refuses = rack, rack.member(0), True
        monkeypatch.setattr(rack_member, "check_reachable", self._check)
        rack.set_role("worker:1")

    def _check(self, address: Any) -> None:
        if self.refuses:
            raise NotReadyError("connection refused")

    def look(self, secs: int) -> Any:
        """Looks once a second; returns the last finding."""
        for _ in range(secs):
            self.rack.beat(1)
            found = self.member._look("")
        return found


WHERE = "worker:0 cannot reach worker:1 at h:7, which adds up the gradients of rack a: connection refused"


def test_an_aggregator_that_this_worker_alone_cannot_reach_is_waited_for_and_then_named(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wait, found = Unreachable(rack, monkeypatch), list[int]()
    for _ in range(31):
        assert wait.look(1) is None
        found.append(len(caplog.records))
    assert [second for second in range(1, 31) if found[second] > found[second - 1]] == [10, 20, 30]
    assert caplog.messages[:2] == [f"{WHERE} (for 10s)", f"{WHERE} (for 20s)"]
    with pytest.raises(UnreachableError, match=rf"^gave up after 30s \(recovery_timeout_secs\): {WHERE}; open this po"):
        wait.look(1)


@pytest.mark.parametrize("change", ["another term", "reached"])
def test_the_wait_begins_anew_with_a_term_and_once_it_was_reached(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    wait = Unreachable(rack, monkeypatch)
    assert wait.look(29) is None
    if change == "reached":
        wait.refuses = False
        assert wait.look(1).role == rack.role
        wait.refuses = True
    else:
        rack.set_role("worker:1", "another")
    assert wait.look(31) is None
    with pytest.raises(UnreachableError):
        wait.look(1)


def test_a_worker_begins_when_the_rack_has_values_and_the_aggregator_relays_until_the_last_step(rack: Rack) -> None:
    member, other = rack.member(0), rack.member(1)
    member.join()
    rack.begin(member)
    other.join()
    rack.session.published = [False, False, True]
    rack.await_values(other)
    assert "relay" not in rack.session.calls and not other.is_relaying
    assert rack.slept[-2:] == [0.05, 0.05]
    rack.await_values(member)
    eventually(lambda: not member.is_relaying, 20, "the end of the relay")
    assert rack.session.calls.count("relay") == 3 and not member.session_is_over()


def test_a_relay_that_fails_ends_the_session(rack: Rack) -> None:
    member = rack.member(0)
    member.join()
    rack.begin(member)
    rack.session.relay_error, rack.session.published = tf.errors.UnavailableError(None, None, "lost"), [False]
    with pytest.raises(tf.errors.AbortedError, match="the aggregator of rack a is lost"):
        rack.await_values(member)
    assert member.session_is_over() and not member.is_relaying
    member.join()
    assert not member.session_is_over(), "the next session has a relay of its own"


@pytest.mark.parametrize("end", ["stops", "another term"])
def test_the_wait_for_values_ends_with_the_process_or_the_term(rack: Rack, end: str) -> None:
    rack.set_role("worker:1")
    member = rack.member(0)
    assert not member.session_is_over()
    member.join()
    rack.session.published = [False]
    if end == "stops":
        rack.stopping = True
    else:
        rack.set_role("worker:2", "another")
        member.read(1, rack.store.items())
        assert not member.session_is_over(), "the records of ps 0 alone count"
        member.read(0, rack.store.items())
    with pytest.raises(tf.errors.AbortedError):
        rack.await_values(member)


def test_the_aggregator_removes_the_silent_workers_of_its_rack(rack: Rack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    member, other = rack.member(0), rack.member(2)
    member.join()
    rack.begin(member)
    other.join()
    rack.begin(other)
    rack.beat(12, member, other, silent=["worker:1"])
    eventually(lambda: ("leave", 1) in rack.session.calls, 20, "the removal")
    assert set(rack.session.calls) == {"prepare", ("leave", 1)}
    told = [text for text in caplog.messages if text.startswith("rack a: worker:1 on host-b")]
    assert len(told) == 1, "the aggregator alone says it"


def test_a_ps_or_aggregator_that_does_not_answer_ends_the_removal(rack: Rack) -> None:
    member = rack.member(0)
    member.join()
    rack.begin(member)
    rack.session.is_silent = True
    member._remove_all(["worker:2", "worker:1"])
    assert rack.session.calls == ["prepare", ("leave", 2)]
    rack.session.is_silent = False
    member._remove_all(["worker:2", "worker:1"])
    assert rack.session.calls[2:] == [("leave", 2), ("leave", 1)]


def test_who_has_lost_the_role_removes_no_more(rack: Rack) -> None:
    member = rack.member(0)
    member.join()
    rack.begin(member)
    rack.set_role("worker:2", "another")
    link = member.join()
    assert link is not None and not link.is_own
    member._remove_all(["worker:1"])
    assert rack.session.calls == ["prepare"]


def test_the_heartbeat_tells_a_member_of_its_rack_the_records(rack: Rack) -> None:
    subscribed: list[Any] = []
    place = types.SimpleNamespace(name="a", index=0)
    topology = types.SimpleNamespace(place=lambda task: place, workers=[WORKERS])
    cluster = types.SimpleNamespace(address=lambda task: types.SimpleNamespace(host="h"))
    heartbeat = types.SimpleNamespace(process_id="p", subscribe=subscribed.append)
    events = types.SimpleNamespace(stop=threading.Event())
    setting: Any = types.SimpleNamespace(
        agreed=types.SimpleNamespace(topology=topology),
        prepared=types.SimpleNamespace(job=JOB, task="worker:1", cluster=cluster),
        joined=types.SimpleNamespace(heartbeat=heartbeat, stores=[rack.store], events=events),
    )
    member = rack_member_of(setting)
    assert subscribed == [member.read] and member.rank == 1
    link = member.join()
    assert link is not None and link.role.process_id == "p"
    events.stop.set()
    assert member.join() is None
