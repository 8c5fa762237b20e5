"""The key-value store on a real server, with several clients at once."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ps_train.base.errors import LostTaskError
from ps_train.cluster.membership.kv_store import KeyValueStore
from tests.support.clusters.cluster import in_parallel
from tests.support.machine.ports import free_ports


def test_what_one_client_writes_another_reads(store_of: Callable[[], KeyValueStore]) -> None:
    one, other = store_of(), store_of()
    assert other.get("a") == "" and other.items() == {}
    one.set("a", 'any "text", even é')
    one.set("b", "2")
    assert other.get("a") == 'any "text", even é'
    assert other.items() == {"a": 'any "text", even é', "b": "2"}


def test_compare_and_set_writes_only_where_it_finds_the_expected_value(store_of: Callable[[], KeyValueStore]) -> None:
    store = store_of()
    assert store.compare_and_set("a", expected="", value="1") == "" and store.get("a") == "1"
    assert store.compare_and_set("a", expected="", value="2") == "1" and store.get("a") == "1"
    assert store.compare_and_set("a", expected="1", value="2") == "1" and store.get("a") == "2"


def test_compare_and_set_is_atomic_with_several_clients(store_of: Callable[[], KeyValueStore]) -> None:
    def count(store: KeyValueStore) -> None:
        known = store.get("n")
        for _ in range(50):
            while True:
                before = store.compare_and_set("n", known, str(int(known or 0) + 1))
                won, known = before == known, str(int(known or 0) + 1) if before == known else before
                if won:
                    break

    stores = [store_of() for _ in range(4)]
    in_parallel([lambda store=store: count(store) for store in stores])
    assert stores[0].get("n") == "200"


def test_a_server_that_does_not_answer_is_reported_within_the_time_out() -> None:
    start = time.monotonic()
    with pytest.raises(LostTaskError, match=r"ps:7 .*does not answer"):
        KeyValueStore(f"grpc://127.0.0.1:{free_ports(1)[0]}", "ps:7 (there)", timeout_secs=1).get("a")
    assert time.monotonic() - start < 20
