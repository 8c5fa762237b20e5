"""The finding about the ways inside and between racks: bytes, and the predicted gain."""

from __future__ import annotations

import pytest

from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.topology import Topology
from ps_train.commands.doctor.racks import rack_finding
from ps_train.commands.doctor.transport import PsMeasurement

MIB = 1 << 20
RACKS = {"ps:0": "a", "ps:1": "b", "worker:0": "a", "worker:1": "a", "worker:2": "a", "worker:3": "b"}
TOPOLOGY = Topology(("a", "b"), (("worker:0", "worker:1", "worker:2"), ("worker:3",)), RACKS)


def measured(ps, rate, round_trip=0.001):
    return PsMeasurement(f"ps:{ps}", Address("h", 1), round_trip=round_trip, pull=rate * MIB, push=rate * MIB)


def test_a_slow_core_promises_a_gain_by_the_shared_way():
    found = rack_finding(TOPOLOGY, "worker:0", [measured(0, 100), measured(1, 10)], [4 * MIB, 4 * MIB])
    # Flat, three workers move 4 MiB each way at 10 MiB/s: 2.4 s.  With racks 0.8 s, and 2 x 8 MiB at 100 MiB/s: 0.32 s.
    assert found.level == "ok" and found.subject == "rack a"
    assert found.text == (
        "inside 100.0 MiB/s, 0.50 ms, to other racks 10.0 MiB/s, 0.50 ms; a step moves 24.0 MiB over its way to other "
        "racks without racks, 8.0 MiB with them; predicted gain of the network's part of a step: 2.1 times"
    )


@pytest.mark.parametrize(("task", "rate"), [("worker:0", 100), ("worker:3", 1)])
def test_without_a_gain_there_is_a_warning(task, rate):
    found = rack_finding(TOPOLOGY, task, [measured(0, 100), measured(1, rate)], [4 * MIB, 4 * MIB])
    assert found.level == "warn" and "leave the racks out" in found.advice


def test_without_a_measured_way_there_are_the_bytes_alone():
    found = rack_finding(TOPOLOGY, "worker:0", [measured(1, 10)], [0, MIB])
    assert found.text.endswith("2.0 MiB with them; no prediction, as no way to a ps in this rack was measured")
    found = rack_finding(TOPOLOGY, "worker:0", [], [MIB, 0])
    assert found.text == "all variables are in this rack, so its workers send nothing to others"
