"""Is every ps reachable, and is it who the cluster says it is?  Asked with a deadline, before any training session.

boards = reach_all(whereabouts, task, shared, timeout_secs=120)      # one Board for each ps, or UnreachableError
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from ps_train.cluster.resolver import ClusterResolver
from ps_train.cluster.spec import Address
from ps_train.config.task import Task
from ps_train.coordination import records
from ps_train.coordination.job_diff import cluster_fields, diff_configs
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.records import Identity
from ps_train.errors import LostTaskError, RefusedError, UnreachableError

log = logging.getLogger(__name__)

_PAUSE_SECS = 0.05
_CONNECT_SECS = 2.0


class NotReadyError(Exception):
    """What is waited for is not there; the text says what is missing."""


def retry_until(attempt: Callable[[], Any], timeout_secs: float, waiting_for: str) -> Any:
    """Calls `attempt` until it does not raise NotYetError; after the time-out, UnreachableError with its last text."""
    start = time.monotonic()
    told = start + 10
    while True:
        try:
            return attempt()
        except NotReadyError as missing:
            now = time.monotonic()
            if now - start >= timeout_secs:
                raise UnreachableError(
                    f"gave up after {timeout_secs:g}s waiting for {waiting_for}: {missing}"
                ) from None
            if now >= told:
                log.warning("waiting for %s (%.0fs): %s", waiting_for, now - start, missing)
                told = now + 10
            time.sleep(_PAUSE_SECS)


def connect_all_ps(
    whereabouts: ClusterResolver, task: Task, shared: Mapping[str, Any], timeout_secs: float
) -> list[KeyValueStore]:
    """Boards of all ps, in order.  Raises UnreachableError or RefusedError, naming task, address and cause."""
    deadline = time.monotonic() + timeout_secs
    boards = []
    for index, address in enumerate(whereabouts.current().ps):
        expected = Task("ps", index)

        def attempt(expected: Task = expected, index: int = index) -> KeyValueStore:
            return connect_ps(expected, whereabouts.current().ps[index], task, shared)

        left = max(0.0, deadline - time.monotonic())
        try:
            boards.append(retry_until(attempt, left, f"{expected} ({address})"))
        except UnreachableError as error:
            raise UnreachableError(f"{error} (startup_timeout_secs={timeout_secs:g})") from None
    return boards


def connect_ps(expected: Task, address: Address, task: Task, shared: Mapping[str, Any]) -> KeyValueStore:
    """One attempt.  Raises NotYetError where waiting may help and RefusedError where it will not."""
    open_store(address)
    board = KeyValueStore(address.target, f"{expected} ({address})")
    try:
        text = board.get(records.IDENTITY)
    except LostTaskError as error:
        raise NotReadyError(str(error)) from None
    if not text:
        board.close()  # the next attempt makes another
        raise NotReadyError(f"{address} answers, but does not say that it is {expected}")
    identity = Identity.from_json(text)
    check_identity(identity, str(expected), str(address), str(task), shared)
    board.incarnation = identity.incarnation
    return board


def check_identity(identity: Identity, expected: str, address: str, task: str, shared: Mapping[str, Any]) -> None:
    """Raises RefusedError if a ps is not the one that `task` takes it for."""
    if identity.task != expected:
        raise RefusedError(
            f"{address} answers as {identity.task} (on {identity.host}, pid {identity.pid}), but ps_hosts of "
            f"{task} has it as {expected}: give every task the same host lists, in the same order."
        )
    found = diff_configs(cluster_fields(identity.shared), cluster_fields(shared), expected, task)
    if found:
        raise RefusedError(f"{expected} ({address}) has other host lists than {task}: {'; '.join(found)}.")


def open_store(address: Address) -> None:
    """Whether anybody listens there: NotYetError says why not."""
    try:
        socket.create_connection((address.host, address.port), timeout=_CONNECT_SECS).close()
    except socket.gaierror as error:
        raise NotReadyError(f"the name {address.host!r} is not resolved ({error.strerror})") from None
    except ConnectionRefusedError:
        raise NotReadyError("connection refused") from None
    except TimeoutError:
        raise NotReadyError("connection timed out") from None
    except OSError as error:
        raise NotReadyError(f"cannot connect ({error.strerror or error})") from None
