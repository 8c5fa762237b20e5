"""Connections to all ps, made with a deadline before any training session; the identity of each ps is checked.

stores = connect_all_ps(resolver, task, shared, timeout_secs=120)      # one KeyValueStore per ps, or UnreachableError
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from ps_train.base.console import human_secs
from ps_train.base.errors import DOCTOR_HINT, LostTaskError, RefusedError, UnreachableError
from ps_train.base.polling import poll_until
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership import records
from ps_train.cluster.membership.job_diff import cluster_fields, diff_configs
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import Identity
from ps_train.config.job import Task

log = logging.getLogger(__name__)

_PAUSE_SECS = 0.05
_CONNECT_SECS = 2.0


class NotReadyError(Exception):
    """Signals that an attempt may be repeated; the text says what is missing."""


def retry_until(
    attempt: Callable[[], Any], timeout_secs: float, waiting_for: str, sign_of_life: Callable[[], Any] = lambda: None
) -> Any:
    """Calls `attempt` until it does not raise NotReadyError; returns its result.

    Args:
      attempt: a function without arguments.
      timeout_secs: after so many seconds the next failure is final.
      waiting_for: names the awaited thing in messages.
      sign_of_life: the time begins anew whenever this has another result.

    Raises:
      UnreachableError: the time is over; its text ends with that of the last NotReadyError.
    """
    start = time.monotonic()
    deadline, next_warning = start + timeout_secs, start + 10
    result: Any = None
    missing = ""

    def succeeds() -> bool:
        nonlocal result, missing, next_warning
        try:
            result = attempt()
            return True
        except NotReadyError as error:
            missing, now = str(error), time.monotonic()
        if next_warning <= now < deadline:
            log.warning("waiting for %s (%.0fs): %s", waiting_for, now - start, missing)
            next_warning = now + 10
        return False

    if succeeds():  # usually; then no sign of life is read
        return result
    seen = sign_of_life()
    while not poll_until(succeeds, deadline, _PAUSE_SECS):
        before, seen = seen, sign_of_life()
        if seen != before:
            deadline = time.monotonic() + timeout_secs
            continue
        raise UnreachableError(f"gave up after {human_secs(timeout_secs)} waiting for {waiting_for}: {missing}")
    return result


def patient(call: Callable[[], Any]) -> Any:
    """Returns the result of a call to a ps; raises NotReadyError instead of LostTaskError, since waiting may help."""
    try:
        return call()
    except LostTaskError as error:
        raise NotReadyError(str(error)) from None


def connect_all_ps(
    resolver: ClusterResolver, task: Task, shared: Mapping[str, Any], timeout_secs: float
) -> list[KeyValueStore]:
    """Connects to all ps; returns their stores in order.

    Args:
      resolver: gives the current addresses of the ps.
      task: the one that connects.
      shared: the job's fields that all tasks share.
      timeout_secs: for all ps together.

    Raises:
      UnreachableError: a ps could not be reached in time; the text names task, address and cause.
      RefusedError: a ps is not the expected one.
    """
    deadline = time.monotonic() + timeout_secs
    stores = []
    for index, address in enumerate(resolver.current().ps):
        expected = Task("ps", index)

        def attempt(expected: Task = expected, index: int = index) -> KeyValueStore:
            return connect_ps(expected, resolver.current().ps[index], task, shared)

        left = max(0.0, deadline - time.monotonic())
        try:
            stores.append(retry_until(attempt, left, f"{expected} ({address})"))
        except UnreachableError as error:
            raise UnreachableError(f"{error} (startup_timeout_secs={timeout_secs:g}); {DOCTOR_HINT}") from None
    return stores


def connect_ps(expected: Task, address: Address, task: Task, shared: Mapping[str, Any]) -> KeyValueStore:
    """Tries once to connect to a ps.  Raises NotReadyError where waiting may help and RefusedError where it cannot."""
    peer = check_reachable(address)
    store = KeyValueStore(address.target, f"{expected} ({address})")
    store.peer = peer
    text = patient(lambda: store.get(records.IDENTITY))
    if not text:
        store.close()  # the next attempt makes a new one
        raise NotReadyError(f"{address} answers, but has not yet identified itself as {expected}")
    identity = Identity.from_json(text)
    check_identity(identity, str(expected), str(address), str(task), shared)
    store.incarnation = identity.incarnation
    return store


def check_identity(identity: Identity, expected: str, address: str, task: str, shared: Mapping[str, Any]) -> None:
    """Raises RefusedError if a ps is not `expected`, or has other host lists than `task`.

    Args:
      identity: as the ps published it.
      expected: the name of the ps in the host lists of `task`.
      address: of the ps, for messages.
      task: the one that connects, such as "worker:1".
      shared: the job's fields that all tasks share.
    """
    if identity.task != expected:
        raise RefusedError(
            f"{address} answers as {identity.task} (on {identity.host}, pid {identity.pid}), but ps_hosts of "
            f"{task} has it as {expected}: give every task the same host lists, in the same order."
        )
    found = diff_configs(cluster_fields(identity.shared), cluster_fields(shared), expected, task)
    if found:
        raise RefusedError(f"{expected} ({address}) has other host lists than {task}: {'; '.join(found)}.")


def check_reachable(address: Address) -> str:
    """Opens and closes a TCP connection; returns the IP address that answered.

    Raises:
      NotReadyError: no process listens there; the text is the cause.
    """
    try:
        with socket.create_connection((address.host, address.port), timeout=_CONNECT_SECS) as connection:
            return str(connection.getpeername()[0])
    except socket.gaierror as error:
        raise NotReadyError(f"the name {address.host!r} is not resolved ({error.strerror})") from None
    except ConnectionRefusedError:
        raise NotReadyError("connection refused") from None
    except TimeoutError:
        raise NotReadyError("connection timed out") from None
    except OSError as error:
        raise NotReadyError(f"cannot connect ({error.strerror or error})") from None
