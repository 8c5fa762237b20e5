"""Measurements of each ps over TensorFlow's own transport: round trip, throughput both ways, clock, versions.

A ps's doctor serves on the ps's own port (`DoctorServer`).  A worker's doctor waits for it a bounded time and measures
(`measure_all`).  The ps of a running job is only asked for its time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import socket
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError, RefusedError, cause_of
from ps_train.base.polling import poll_until
from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import check_identity
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import Identity, Record
from ps_train.cluster.sessions.calls import RepeatingSession
from ps_train.cluster.sessions.server import device_of, session_config, start_server
from ps_train.commands.doctor.network import Answer, in_parallel, probe
from ps_train.config.job import Job, Task

RECORD = "doctor"
"""Key of a `DoctorRecord` in the store of a ps's doctor; a worker's doctor writes its own under `doctor/TASK`."""

_PINGS, _CALL_SECS = 25, 5.0
_FIRST_BYTES, _MOST_BYTES, _ENOUGH_SECS = 1 << 20, 64 << 20, 0.15
_POLL_SECS = 0.5
MEASURE_SECS = 30.0
"""Seconds that the measurements of one ps may take after it has answered."""


@dataclasses.dataclass(frozen=True)
class DoctorRecord(Record):
    """The facts that a doctor publishes.

    Attributes:
      host, pid: where it runs.
      versions: name to version.
      cores: processors that it may use.
      shared: the job's fields that all tasks share.
    """

    task: str
    host: str
    pid: int
    versions: dict[str, str]
    cores: int
    shared: dict[str, Any]

    def identity(self) -> Identity:
        """Returns the record in the form that a ps of a job publishes."""
        return Identity(self.task, "", self.host, self.pid, self.shared)


@dataclasses.dataclass
class PsMeasurement:
    """The measurements of the way to one ps, or to a worker; a value that was not measured is None.

    Attributes:
      name: the ps, or the worker.
      answer: the kind of answer at the address.
      text: the answer in words.
      record: what its doctor published.
      running: the identity of a ps of a running job.
      refused: a reason why the ps is not the expected one; "" if it is.
      round_trip: seconds, the least of several calls.
      clock_offset: seconds by which its clock is ahead of the one here.
      pull, push: bytes a second from it and to it.
      pull_cpu, push_cpu: CPU time of this process for each second of these transfers, in cores.
      problem: a measurement that failed, in words.
      process: the task whose process it is.
    """

    name: str
    address: Address
    answer: Answer = Answer.UNREACHABLE
    text: str = ""
    record: DoctorRecord | None = None
    running: Identity | None = None
    refused: str = ""
    round_trip: float | None = None
    clock_offset: float | None = None
    pull: float | None = None
    push: float | None = None
    pull_cpu: float | None = None
    push_cpu: float | None = None
    problem: str = ""
    process: str = ""


def new_record(job: Job, task: Task, versions: Mapping[str, str], cores: int) -> DoctorRecord:
    """Returns the record of the doctor in this process."""
    return DoctorRecord(str(task), socket.gethostname(), os.getpid(), dict(versions), cores, job.shared_fields())


def clock_offset(pings: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Returns (round trip, offset of the other clock), from the ping with the least round trip.

    Args:
      pings: (time here before, time there, time here after) of each ping, in seconds.
    """
    before, there, after = min(pings, key=lambda ping: ping[2] - ping[0])
    return after - before, there - (before + after) / 2


class DoctorServer:
    """A TensorFlow server on the port of a task, and the store on it.

    Args:
      record: published in the store.
      address: the task's address.
    """

    def __init__(self, record: DoctorRecord, address: Address, job: Job) -> None:
        self.server = start_server(address, job)
        self._store = KeyValueStore(self.server.target, str(address))
        self._store.set(RECORD, record.to_json())

    def await_doctors(self, tasks: list[str], deadline: float, seen: Callable[[DoctorRecord], None]) -> list[str]:
        """Waits until the doctors of some tasks have measured; returns those that have not.

        Args:
          tasks: the tasks to wait for.
          deadline: of the monotonic clock.
          seen: called with the record of each.
        """
        left = list(tasks)

        def all_have_come() -> bool:
            try:
                items = self._store.items()
            except LostTaskError:  # busy with a measurement
                return False
            for task in [task for task in left if f"{RECORD}/{task}" in items]:
                left.remove(task)
                with contextlib.suppress(RefusedError):  # of another version
                    seen(DoctorRecord.from_json(items[f"{RECORD}/{task}"]))
            return not left

        poll_until(all_have_come, deadline, _POLL_SECS)
        return left


def measure_all(
    job: Job, cluster: Cluster, own: DoctorRecord, server: DoctorServer | None, wait_secs: float, names: list[str]
) -> list[PsMeasurement]:
    """Waits for some tasks and measures the ways to them; ends within the waiting time and some seconds.

    Args:
      job: its shared fields must be those of the other tasks.
      cluster: the host lists.
      own: the record of this doctor.
      server: this task's server, with which throughput is measured; None without one.
      wait_secs: how long a task may take to answer.
      names: the ps to measure; or workers, whose doctors must be there.
    """
    found = {name: _not_measured(name, cluster) for name in names}
    deadline = time.monotonic() + wait_secs
    works = {name: functools.partial(_wait_for, one, job, own, deadline) for name, one in found.items()}
    in_parallel(works, wait_secs + MEASURE_SECS)
    for name, one in found.items():  # one after the other: they share the network
        in_parallel({name: functools.partial(_measure, one, job, cluster, own, server)}, MEASURE_SECS)
        if one.answer is Answer.GRPC and one.round_trip is None:
            one.problem = one.problem or f"no measurement within {MEASURE_SECS:g}s"
    return list(found.values())


def _not_measured(name: str, cluster: Cluster) -> PsMeasurement:
    job_name, _, index = name.partition(":")
    if job_name != "ps":
        return PsMeasurement(name, cluster.tasks()[name], process=name)
    return PsMeasurement(name, cluster.ps[int(index)], process=str(cluster.ps_tasks[int(index)]))


def _wait_for(one: PsMeasurement, job: Job, own: DoctorRecord, deadline: float) -> None:
    """Polls an address until a ps or its doctor answers there, or the deadline is over."""
    hopeless = 0

    def has_answered() -> bool:
        nonlocal hopeless
        one.answer, one.text = probe(one.address)
        if one.answer is Answer.GRPC:
            return _identify(one, job, own)
        hopeless += one.answer in (Answer.OTHER, Answer.SILENT)
        return hopeless >= 2

    if not poll_until(has_answered, deadline, _POLL_SECS) and one.answer is Answer.GRPC:
        one.problem = "a gRPC server answers, but is neither a ps nor the doctor of one"


def _identify(one: PsMeasurement, job: Job, own: DoctorRecord) -> bool:
    """Reads what runs at an address; returns True if a ps or a doctor does."""
    try:
        store = KeyValueStore(one.address.target, one.name, timeout_secs=_CALL_SECS)
        items = store.items()
    except (LostTaskError, RefusedError, RuntimeError) as error:
        one.text = str(error)
        return False
    try:
        if RECORD in items:
            one.record = DoctorRecord.from_json(items[RECORD])
        elif records.IDENTITY in items:
            one.running = Identity.from_json(items[records.IDENTITY])
        identity = one.record.identity() if one.record else one.running
        if identity is None:
            return False
        expected = one.process if one.record else one.name
        check_identity(identity, expected, str(one.address), own.task, job.shared_fields())
    except RefusedError as error:
        one.refused = str(error)
    return True


def _measure(one: PsMeasurement, job: Job, cluster: Cluster, own: DoctorRecord, server: DoctorServer | None) -> None:
    if one.answer is not Answer.GRPC or (one.record is None and one.running is None):
        return
    try:
        one.round_trip, one.clock_offset = ping(one.address)
        if server is not None and one.record is not None and not one.refused:
            (one.pull, one.pull_cpu), (one.push, one.push_cpu) = _throughput(one, job, cluster, own, server)
        if one.record is not None:
            KeyValueStore(one.address.target, one.name, _CALL_SECS).set(f"{RECORD}/{own.task}", own.to_json())
    except (tf.errors.OpError, LostTaskError, RuntimeError) as error:
        one.problem = cause_of(error) if isinstance(error, tf.errors.OpError) else str(error)


def ping(address: Address) -> tuple[float, float]:
    """Returns the round trip to a server and the offset of its clock, in seconds."""
    with tf.Graph().as_default() as graph:
        now = tf.timestamp()
    config = v1.ConfigProto(operation_timeout_in_ms=int(1000 * _CALL_SECS))
    with v1.Session(address.target, graph=graph, config=config) as session:
        call = session.make_callable(now)
        call()  # the first call prepares the graph
        return clock_offset([(time.time(), float(call()), time.time()) for _ in range(_PINGS)])


def _throughput(
    one: PsMeasurement, job: Job, cluster: Cluster, own: DoctorRecord, server: DoctorServer
) -> tuple[_Transfer, _Transfer]:
    """Returns the transfers from a ps and to it."""
    task = Task.named(own.task)
    alone = dataclasses.replace(cluster, ps=(one.address,), ps_tasks=(Task("ps", 0),))
    here, there = device_of(task, alone), device_of(Task("ps", 0), alone)
    with tf.Graph().as_default() as graph:
        count = v1.placeholder(tf.int32, [], "count")
        calls = {
            (source, target): _transfer(count, source, target) for source in (here, there) for target in (here, there)
        }
    with RepeatingSession(server.server.target, graph=graph, config=session_config(alone, task, job)) as session:
        return (
            _bytes_per_sec(session, count, calls[there, here], calls[there, there]),
            _bytes_per_sec(session, count, calls[here, there], calls[here, here]),
        )


def _transfer(count: tf.Tensor, source: str, target: str) -> tf.Tensor:
    """Returns one element of a tensor that is made on one device and read on another."""
    with tf.device(source):
        values = tf.fill([count], 1.0)
    with tf.device(target):
        return tf.strided_slice(values, [count - 1], [count])


class _Transfer(NamedTuple):
    """Bytes a second of a transfer, and the CPU time of this process for each second of it, in cores."""

    bytes_per_sec: float
    cpu: float


def _bytes_per_sec(session: v1.Session, count: tf.Tensor, there: tf.Tensor, here: tf.Tensor) -> _Transfer:
    """Measures a transfer; `here` is the same without a transfer, whose time does not count."""
    options, size = v1.RunOptions(timeout_in_ms=int(1000 * _CALL_SECS)), _FIRST_BYTES

    def secs(fetch: tf.Tensor) -> float:
        taken = []
        for _ in range(3):
            began = time.monotonic()
            session.run(fetch, {count: size // 4}, options=options)
            taken.append(time.monotonic() - began)
        return statistics.median(taken)

    secs(there)  # connects, and prepares the graph
    while True:
        began, cpu = time.monotonic(), time.process_time()
        taken = secs(there)
        cpu = (time.process_time() - cpu) / max(1e-6, time.monotonic() - began)
        if taken >= _ENOUGH_SECS or size >= _MOST_BYTES:
            return _Transfer(size / max(1e-6, taken - min(secs(here), taken / 2)), cpu)
        size *= 4
