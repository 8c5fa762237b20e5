"""A server of one ps, and clients of its key-value store."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.sessions.server import start_server
from ps_train.config.job import Job
from tests.support.machine.ports import free_ports


@pytest.fixture
def server() -> v1.train.Server:
    return start_server(Address("127.0.0.1", free_ports(1)[0]), Job())


@pytest.fixture
def store_of(server: v1.train.Server) -> Callable[[], KeyValueStore]:
    return lambda: KeyValueStore(server.target, "ps:0 (here)")
