"""The finding about the ways inside and between racks, and the bytes on them."""

from __future__ import annotations

from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.topology import Topology
from ps_train.commands.doctor.rack_advice import neighbour_finding, rack_finding
from ps_train.commands.doctor.transport import PsMeasurement

MIB = 1 << 20
RACKS = {"ps:0": "a", "ps:1": "b", "worker:0": "a", "worker:1": "a", "worker:2": "a", "worker:3": "b"}
TOPOLOGY = Topology(("a", "b"), (("worker:0", "worker:1", "worker:2"), ("worker:3",)), RACKS)


def measured(ps, rate, round_trip=0.001):
    return PsMeasurement(f"ps:{ps}", Address("h", 1), round_trip=round_trip, pull=rate * MIB, push=rate * MIB)


def test_the_ways_and_the_bytes_between_racks_are_said():
    found = rack_finding(TOPOLOGY, "worker:0", [measured(0, 100), measured(1, 10)], None, [4 * MIB, 4 * MIB])
    assert found.level == "ok" and found.subject == "rack a"
    assert found.text == (
        "inside 100.0 MiB/s, 0.50 ms, to other racks 10.0 MiB/s, 0.50 ms; a step moves 24.0 MiB over its way to other "
        "racks without racks, 8.0 MiB with them"
    )


def test_the_way_between_workers_counts_for_what_they_pass_on():
    ways, neighbour = [measured(0, 100), measured(1, 20)], measured(0, 10)
    neighbour.name = "worker:1"
    found = rack_finding(TOPOLOGY, "worker:0", ways, neighbour, [4 * MIB, 4 * MIB])
    assert found.text.startswith("inside 10.0 MiB/s, 0.50 ms, to other racks 20.0 MiB/s") and found.level == "warn"


def test_racks_on_a_network_that_is_as_fast_between_them_are_a_warning():
    found = rack_finding(TOPOLOGY, "worker:0", [measured(0, 100), measured(1, 100)], None, [4 * MIB, 4 * MIB])
    assert found.level == "warn" and "leave the racks out" in found.advice
    found = rack_finding(TOPOLOGY, "worker:3", [measured(0, 1)], None, [4 * MIB, 4 * MIB])
    assert found.level == "ok" and "a rack of one worker gains nothing itself" in found.text


def test_a_neighbour_whose_doctor_did_not_come_is_a_warning():
    missing = PsMeasurement("worker:1", Address("h", 1), text="connection refused")
    found = neighbour_finding(missing, "worker:0")
    assert (found.level, found.text) == ("warn", "worker:1 (h:1), of the same rack: connection refused")
    assert neighbour_finding(measured(0, 7), "worker:0").text.endswith(
        "round trip 1.00 ms; pull 7.0 MiB/s, push 7.0 MiB/s"
    )


def test_without_a_measured_way_there_are_the_bytes_alone():
    found = rack_finding(TOPOLOGY, "worker:0", [measured(1, 10)], None, [0, MIB])
    assert found.text.endswith("2.0 MiB with them; no way inside this rack was measured")
    found = rack_finding(TOPOLOGY, "worker:0", [measured(0, 10)], None, [0, MIB])
    assert found.text.endswith("; no way to a ps in another rack was measured")
    found = rack_finding(TOPOLOGY, "worker:0", [], None, [MIB, 0])
    assert found.text == "all variables are in this rack, so its workers send nothing to others"
