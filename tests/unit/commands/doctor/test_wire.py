"""The bytes of a step, and their time on the measured network."""

from __future__ import annotations

import pytest

from ps_train.cluster.addresses.cluster import Address
from ps_train.commands.doctor.transport import PsMeasurement
from ps_train.commands.doctor.wire import Traffic, wire_finding
from ps_train.config.job import Job

FLOATS = Traffic(whole=4_000_000, pulled=1_000_000, pushed=1_000_000)
GIGABIT = 125e6
WAYS = [
    PsMeasurement("ps:0", Address("p0", 1), pull=GIGABIT, push=GIGABIT),
    PsMeasurement("ps:1", Address("p1", 1), pull=10 * GIGABIT, push=10 * GIGABIT),
    PsMeasurement("ps:2", Address("p2", 1)),
]


def test_codecs_make_fewer_bytes():
    assert FLOATS.on_wire(("none", "none")) == (4e6, 4e6)
    assert FLOATS.on_wire(("bfloat16", "int8")) == (2e6, pytest.approx(1.016e6, rel=1e-3))
    assert FLOATS.on_wire(("float16", "top_k:0.01,int8")) == (2e6, pytest.approx(30_156, rel=1e-3))


def test_values_that_no_codec_encodes_travel_as_they_are():
    mixed = Traffic(whole=1_000, pulled=100, pushed=50)  # 600 bytes are of other dtypes; 50 values have rows
    assert mixed.on_wire(("bfloat16", "bfloat16")) == (800, 900)


def test_the_slowest_way_counts_and_codecs_are_named_with_their_times():
    (found,) = wire_finding(FLOATS, WAYS, Job())
    assert (found.level, found.text) == ("ok", "a step pulls 3.8 MiB and pushes 3.8 MiB: 64.0 ms")
    assert found.advice.startswith("32.0 ms with --pull_codec=bfloat16 --push_codec=bfloat16, 24.1 ms with ")
    times = [float(one.partition(" ms")[0]) for one in found.advice.split(", ")]
    assert len(times) == 4 and times[0] > times[1] > times[2]


def test_codecs_that_the_job_has_are_not_named_again():
    (found,) = wire_finding(FLOATS, WAYS, Job(pull_codec="bfloat16", push_codec="bfloat16"))
    assert "--push_codec=bfloat16" not in found.advice and "--push_codec=int8" in found.advice
    (found,) = wire_finding(FLOATS, WAYS, Job(pull_codec="bfloat16", push_codec="top_k:0.01"))
    assert found.advice == ""


def test_few_bytes_need_no_codec_and_without_a_measured_way_there_is_no_finding():
    (found,) = wire_finding(Traffic(whole=40_000, pulled=10_000, pushed=10_000), WAYS, Job())
    assert (found.level, found.advice) == ("ok", "")
    assert wire_finding(Traffic(), WAYS, Job()) == wire_finding(FLOATS, WAYS[2:], Job()) == []
