"""The board, the seats and the budget: on a real server, by several clients at once."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import tensorflow.compat.v1 as v1

from ps_train.cluster.server import session_config, start_server
from ps_train.cluster.spec import Address, Cluster
from ps_train.config.job import Job
from ps_train.config.task import Task
from ps_train.coordination import records
from ps_train.coordination.connect import NotReadyError, connect_ps, retry_until
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.lease import Lease
from ps_train.coordination.records import TaskStatus, new_identity, new_task_status
from ps_train.coordination.step_budget import StepBudget
from ps_train.errors import LostTaskError, RefusedError, UnreachableError
from tests.support.cluster import in_parallel
from tests.support.processes import free_ports


@pytest.fixture
def server() -> v1.train.Server:
    return start_server(Address("127.0.0.1", free_ports(1)[0]), Job())


@pytest.fixture
def board_of(server: v1.train.Server) -> Callable[[], KeyValueStore]:
    return lambda: KeyValueStore(server.target, "ps:0 (here)")


def test_what_one_client_writes_another_reads(board_of: Callable[[], KeyValueStore]) -> None:
    one, other = board_of(), board_of()
    assert other.get("a") == "" and other.items() == {}
    one.set("a", 'any "text", even é')
    one.set("b", "2")
    assert other.get("a") == 'any "text", even é'
    assert other.items() == {"a": 'any "text", even é', "b": "2"}


def test_swap_writes_only_where_it_finds_what_it_expects(board_of: Callable[[], KeyValueStore]) -> None:
    board = board_of()
    assert board.compare_and_set("a", expected="", value="1") == "" and board.get("a") == "1"
    assert board.compare_and_set("a", expected="", value="2") == "1" and board.get("a") == "1"
    assert board.compare_and_set("a", expected="1", value="2") == "1" and board.get("a") == "2"


def test_swaps_of_several_clients_are_atomic(board_of: Callable[[], KeyValueStore]) -> None:
    def count(board: KeyValueStore) -> None:
        known = board.get("n")
        for _ in range(50):
            while True:
                before = board.compare_and_set("n", known, str(int(known or 0) + 1))
                won, known = before == known, str(int(known or 0) + 1) if before == known else before
                if won:
                    break

    boards = [board_of() for _ in range(4)]
    in_parallel([lambda board=board: count(board) for board in boards])
    assert boards[0].get("n") == "200"


def test_a_server_that_does_not_answer_is_reported_within_the_time_out() -> None:
    start = time.monotonic()
    with pytest.raises(LostTaskError, match=r"ps:7 .*does not answer"):
        KeyValueStore(f"grpc://127.0.0.1:{free_ports(1)[0]}", "ps:7 (there)", timeout_secs=1).get("a")
    assert time.monotonic() - start < 3


def test_a_seat_is_taken_by_one_process_only_and_the_other_is_told_by_whom(
    board_of: Callable[[], KeyValueStore],
) -> None:
    first, second = Lease(board_of(), new_task_status("worker:1")), Lease(board_of(), new_task_status("worker:1"))
    first.acquire(lease_secs=5)

    def beat() -> None:
        for _ in range(200):
            assert first.renew()
            if told:
                return
            time.sleep(0.05)

    told: list[str] = []

    def claim() -> None:
        with pytest.raises(RefusedError, match=f"worker:1 is already running.*pid {os.getpid()}") as refusal:
            second.acquire(lease_secs=5)
        told.append(str(refusal.value))

    in_parallel([beat, claim])
    assert told


def test_of_two_that_claim_a_seat_at_the_same_moment_one_gets_it(board_of: Callable[[], KeyValueStore]) -> None:
    leases = [Lease(board_of(), new_task_status("worker:1")) for _ in range(4)]
    got: list[Lease] = []

    def claim(lease: Lease) -> None:
        try:
            lease.acquire(lease_secs=1.5)
        except RefusedError:
            return
        got.append(lease)
        for _ in range(60):
            if not lease.renew():
                got.remove(lease)
                return
            time.sleep(0.05)

    in_parallel([lambda lease=lease: claim(lease) for lease in leases])
    assert len(got) == 1


def test_the_seat_of_a_silent_process_is_taken_over_and_its_holder_learns_of_it(
    board_of: Callable[[], KeyValueStore],
) -> None:
    first, second = Lease(board_of(), new_task_status("worker:1")), Lease(board_of(), new_task_status("worker:1"))
    first.acquire(lease_secs=1)
    second.acquire(lease_secs=0.5)
    assert second.renew() and not first.renew()


def test_the_seat_of_a_process_that_is_gone_is_free_at_once(board_of: Callable[[], KeyValueStore]) -> None:
    gone = int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))
    Lease(board_of(), dataclasses.replace(new_task_status("worker:1"), pid=gone)).acquire(lease_secs=60)
    start = time.monotonic()
    Lease(board_of(), new_task_status("worker:1")).acquire(lease_secs=60)
    assert time.monotonic() - start < 5


def test_a_seat_survives_the_loss_of_its_board(board_of: Callable[[], KeyValueStore]) -> None:
    board = board_of()
    lease = Lease(board, new_task_status("worker:1"))
    lease.acquire(lease_secs=1)
    board.set(records.task_key("worker:1"), TaskStatus("worker:1", lease.status.process_id, "host", 1).to_json())
    assert lease.renew(records.TaskState.TRAINING)
    assert TaskStatus.from_json(board.get(records.task_key("worker:1"))).state == "training"


def test_the_budget_hands_out_every_step_exactly_once(board_of: Callable[[], KeyValueStore]) -> None:
    StepBudget(board_of(), 500, 4).start_at(0)
    taken = [0, 0, 0, 0]

    def work(index: int) -> None:
        budget = StepBudget(board_of(), 500, 4)
        while count := budget.take(30):
            taken[index] += count
            if count > 3:
                budget.give_back(1)
                taken[index] -= 1

    in_parallel([lambda index=index: work(index) for index in range(4)])
    assert sum(taken) == 500
    assert StepBudget(board_of(), 500, 4).allocated() == 500


def test_lost_steps_are_handed_out_again_only_if_nothing_happened_since(board_of: Callable[[], KeyValueStore]) -> None:
    budget = StepBudget(board_of(), 100, 1)
    budget.start_at(0)
    while budget.take(100):
        continue
    assert budget.take(1) == 0
    assert not budget.reclaim(allocated=99, step=80) and budget.take(1) == 0
    assert budget.reclaim(allocated=100, step=80) and budget.take(1) == 1


def test_a_ps_is_reached_only_if_it_says_who_it_is_and_is_the_one_expected(server: v1.train.Server) -> None:
    address = Address.parse(server.target.removeprefix("grpc://"), "a test")
    shared = {"ps_hosts": [str(address)], "worker_hosts": ["a:1"], "chief_hosts": [], "max_workers": 0}
    me = Task("worker", 0)
    with pytest.raises(NotReadyError, match="has not yet identified itself as ps:0"):
        connect_ps(Task("ps", 0), address, me, shared)
    KeyValueStore(server.target, "itself").set(records.IDENTITY, new_identity("ps:0", shared).to_json())
    board = connect_ps(Task("ps", 0), address, me, shared)
    assert board.incarnation
    with pytest.raises(RefusedError, match=r"answers as ps:0.*as ps:1"):
        connect_ps(Task("ps", 1), address, me, shared)
    with pytest.raises(RefusedError, match="worker_hosts: a:1 at ps:0, b:1 at worker:0"):
        connect_ps(Task("ps", 0), address, me, {**shared, "worker_hosts": ["b:1"]})


def test_waiting_ends_with_the_last_reason() -> None:
    def never() -> None:
        raise NotReadyError("the moon is not full")

    start = time.monotonic()
    with pytest.raises(UnreachableError, match="waiting for the tide: the moon is not full"):
        retry_until(never, 0.3, "the tide")
    assert 0.3 <= time.monotonic() - start < 10


def test_a_host_that_never_takes_the_connection_times_out() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = []
        for _ in range(4):  # fill the queue of the port: further connections get no answer at all
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(("127.0.0.1", port))
        with pytest.raises(NotReadyError, match="connection timed out"):
            connect_ps(Task("ps", 0), Address("127.0.0.1", port), Task("worker", 0), {})
        for one in waiting:
            one.close()


def test_a_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(NotReadyError, match=r"'no-such-host.invalid' is not resolved"):
        connect_ps(Task("ps", 0), Address("no-such-host.invalid", 2222), Task("worker", 0), {})


@pytest.mark.parametrize(("gpus", "growth", "count"), [(0, True, {"GPU": 0}), (2, False, {"GPU": 2}), (-1, True, {})])
def test_the_devices_of_a_worker_can_be_set(gpus: int, growth: bool, count: dict[str, int]) -> None:
    job = Job(ps_hosts=("p:1",), worker_hosts=("a:1", "b:1"), gpus=gpus, gpu_memory_growth=growth)
    config = session_config(Cluster.of(job), Task("worker", 1), job)
    assert dict(config.device_count) == count and config.gpu_options.allow_growth == growth
    tasks = {one.name: dict(one.tasks) for one in config.cluster_def.job}
    assert tasks == {"ps": {0: "p:1"}, "worker": {1: "b:1"}}, "a session knows the ps and itself"
