"""Findings about a measured ps, and the clock's offset as a function of pings."""

from __future__ import annotations

import dataclasses

import pytest

from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.records import Identity
from ps_train.commands.doctor.measured import (
    keep_measured,
    measured_findings,
    table_of_ways,
    versions_finding,
    weights_finding,
)
from ps_train.commands.doctor.network import Answer
from ps_train.commands.doctor.transport import DoctorRecord, PsMeasurement, clock_offset
from ps_train.config.job import Job
from ps_train.observe.status.measured_network import read_network

VERSIONS = {"TensorFlow": "2.21.0", "ps_train": "0.1.0", "Python": "3.11.7"}
RECORD = DoctorRecord("ps:0", "host-a", 12, VERSIONS, 8, {})
GOOD = PsMeasurement(
    "ps:0", Address("host-a", 2222), Answer.GRPC, "", RECORD, None, "", 0.001, -0.25, 500 << 20, 400 << 20
)


def levels(found):
    return {finding.subject: finding.level for finding in found}


def test_a_healthy_ps():
    found = measured_findings(GOOD, VERSIONS, "worker:0")
    assert levels(found) == dict.fromkeys(("reach", "transport", "clock", "versions"), "ok")
    text = " ".join(finding.line() for finding in found)
    assert "round trip 1.00 ms; pull 500.0 MiB/s, push 400.0 MiB/s" in text
    assert "0.2500s behind this host (± 0.0005s)" in text


def test_ps_of_different_speed_get_weights():
    slow = dataclasses.replace(GOOD, name="ps:1", pull=100 << 20)
    assert weights_finding([GOOD, GOOD], Job()) == weights_finding([slow], Job()) == []
    (found,) = weights_finding([GOOD, slow], Job())
    assert found.level == "warn" and "ps:1 moves 0.25" in found.line() and "--ps_weights=1,0.25" in found.line()
    (found,) = weights_finding([GOOD, slow], Job(ps_weights="1,0.3"))
    assert found.level == "ok" and "ps_weights=1,0.3" in found.line()
    assert weights_finding([GOOD, dataclasses.replace(slow, push=None)], Job()) == []


def test_the_ways_to_the_ps_are_a_table():
    one = dataclasses.replace(GOOD, pull_cpu=0.5, push_cpu=1.25)
    far = dataclasses.replace(one, name="ps:1", address=Address("host-b", 2222), round_trip=0.02)
    unknown = dataclasses.replace(GOOD, pull=None)
    rows = [line.split("  ") for line in table_of_ways([one, far, unknown], lambda name: name == "host-a").splitlines()]
    found = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert found == [
        ["way", "direction", "bandwidth", "delay", "CPU share"],
        ["TCP inside this host, ps:0", "pull", "500.0 MiB/s", "0.50 ms", "0.50 cores"],
        ["TCP inside this host, ps:0", "push", "400.0 MiB/s", "0.50 ms", "1.25 cores"],
        ["TCP to host-b, ps:1", "pull", "500.0 MiB/s", "10.00 ms", "0.50 cores"],
        ["TCP to host-b, ps:1", "push", "400.0 MiB/s", "10.00 ms", "1.25 cores"],
    ]
    assert table_of_ways([unknown], bool) == ""


@pytest.mark.parametrize(
    ("change", "subject", "level"),
    [
        ({"round_trip": 0.05}, "transport", "warn"),
        ({"push": 1 << 20}, "transport", "warn"),
        ({"clock_offset": 3.0}, "clock", "warn"),
        ({"problem": "Socket closed"}, "transport", "FAIL"),
        ({"refused": "it is ps:1"}, "reach", "FAIL"),
        ({"answer": Answer.SILENT}, "reach", "FAIL"),
        ({"answer": Answer.REFUSED}, "reach", "FAIL"),
        ({"record": None}, "reach", "FAIL"),
        ({"record": None, "running": Identity("ps:0", "", "host-a", 7, {})}, "reach", "warn"),
    ],
)
def test_each_trouble_is_one_finding(change, subject, level):
    found = measured_findings(dataclasses.replace(GOOD, **change), VERSIONS, "worker:0")
    assert level in [finding.level for finding in found if finding.subject == subject]


@pytest.mark.parametrize(
    ("name", "version", "level"),
    [("TensorFlow", "2.16.1", "FAIL"), ("ps_train", "0.2.0", "FAIL"), ("Python", "3.12.1", "warn"),
     ("TensorFlow", "2.21.1", "warn")],
)  # fmt: skip
def test_other_versions(name, version, level):
    found = versions_finding({**VERSIONS, name: version}, VERSIONS, "ps:0 (a:1)")
    assert found.level == level and f"{name} {version} there, {VERSIONS[name]} here" in found.text


def test_the_offset_is_that_of_the_quickest_ping():
    pings = [(10.0, 15.4, 10.9), (20.0, 25.05, 20.1), (30.0, 35.4, 30.6)]
    round_trip, offset = clock_offset(pings)
    assert round_trip == pytest.approx(0.1) and offset == pytest.approx(5.0)


def test_throughput_is_kept_for_the_rules_of_health_where_there_is_a_model_directory(tmp_path):
    address = Address("127.0.0.1", 2222)
    found = [PsMeasurement("ps:0", address, pull=4e8, push=1e8), PsMeasurement("ps:1", address)]
    keep_measured(found, str(tmp_path / "run"))
    assert read_network(str(tmp_path / "run")) == {"ps:0": (4e8, 1e8)}
    keep_measured(found, "")
    keep_measured(found[1:], str(tmp_path / "other"))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
