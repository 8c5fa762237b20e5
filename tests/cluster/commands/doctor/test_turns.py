"""Turns of the doctors of a job with racks: rack after rack, and the others of a rack after its first worker."""

from __future__ import annotations

import threading
import time

from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.topology import Topology
from ps_train.commands.doctor.turns import turn
from tests.support.servers import POOL

TOPOLOGY = Topology(
    ("a", "b"),
    (("worker:0", "worker:1"), ("worker:2",)),
    {"worker:0": "a", "worker:1": "a", "worker:2": "b", "ps:0": "a", "ps:1": "b"},
)


def test_first_workers_measure_one_after_the_other_and_the_others_of_their_racks_later() -> None:
    ps = [Address.parse(server.host, "tests") for server in POOL.take(2)]
    begun: list[tuple[str, bool]] = []
    ended = {task: threading.Event() for task in ("worker:0", "worker:1", "worker:2")}

    def measure(task: str) -> None:
        with turn(TOPOLOGY, task, ps, time.monotonic() + 20) as is_first:
            begun.append((task, is_first))
            assert ended[task].wait(20)
            KeyValueStore(ps[1].target, "ps:1").set(f"doctor/{task}", "{}")

    threads = {}
    for task in ("worker:0", "worker:2", "worker:1"):
        threads[task] = threading.Thread(target=measure, args=[task], daemon=True)
        threads[task].start()
        time.sleep(1)  # the others have asked in this time
    assert begun == [("worker:0", True)]
    ended["worker:0"].set()
    threads["worker:0"].join(20)
    ended["worker:1"].set()
    threads["worker:1"].join(20)
    ended["worker:2"].set()
    threads["worker:2"].join(20)
    assert sorted(begun) == [("worker:0", True), ("worker:1", False), ("worker:2", True)]
    assert not any(thread.is_alive() for thread in threads.values())


def test_nobody_waits_longer_than_the_deadline() -> None:
    (server,) = POOL.take(1)
    ps = [Address.parse(server.host, "tests")]
    KeyValueStore(ps[0].target, "ps:0").set("doctor_turn", "worker:7")
    for task, is_first in (("worker:0", True), ("worker:1", False)):
        began = time.monotonic()
        with turn(TOPOLOGY, task, ps, began + 0.5) as found:
            assert found == is_first and 0.4 < time.monotonic() - began < 15
    assert KeyValueStore(ps[0].target, "ps:0").get("doctor_turn") == "worker:7", "it has another owner"
    with turn(TOPOLOGY, "worker:0", [Address("127.0.0.1", 1)], time.monotonic() + 0.1) as found:
        assert found
