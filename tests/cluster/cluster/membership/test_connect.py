"""A ps is accepted only if it is the expected one, and every wait for it ends with a reason."""

from __future__ import annotations

import socket
import time

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import RefusedError, UnreachableError
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import NotReadyError, connect_ps, retry_until
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import new_identity
from ps_train.config.job import Task


def test_a_ps_is_accepted_only_if_it_identifies_itself_as_the_expected_one(server: v1.train.Server) -> None:
    address = Address.parse(server.target.removeprefix("grpc://"), "a test")
    shared = {"ps_hosts": [str(address)], "worker_hosts": ["a:1"], "chief_hosts": [], "max_workers": 0}
    me = Task("worker", 0)
    with pytest.raises(NotReadyError, match="has not yet identified itself as ps:0"):
        connect_ps(Task("ps", 0), address, me, shared)
    KeyValueStore(server.target, "itself").set(records.IDENTITY, new_identity("ps:0", shared).to_json())
    store = connect_ps(Task("ps", 0), address, me, shared)
    assert store.incarnation
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
