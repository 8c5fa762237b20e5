"""The bound of a slow network, against numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.wire_bound import Used, Wire, batches_per_sec

WIRE = Wire(delay_secs=0.001, bytes_per_sec=100e6)
EVEN = Used(pulled=1e6, pushed=1e6, compute_secs=0.003, cpu_secs=0.004)  # 10 ms on the wire each way


def test_a_worker_waits_for_all_parts_of_its_turn():
    assert batches_per_sec(EVEN, WIRE, workers=1, cores=2, ahead=False) == pytest.approx(1 / 0.025)


def test_two_steps_are_under_way_when_values_are_pulled_ahead():
    assert batches_per_sec(EVEN, WIRE, workers=1, cores=2, ahead=True) == pytest.approx(2 / 0.025)
    pushing = dataclasses.replace(EVEN, pushed=9e6)
    assert batches_per_sec(pushing, WIRE, workers=1, cores=2, ahead=True) == pytest.approx(1 / 0.09)


def test_all_workers_share_the_line_of_the_ps():
    assert batches_per_sec(EVEN, WIRE, workers=4, cores=8, ahead=False) == pytest.approx(100)


def test_without_a_ps_every_worker_has_a_line_of_its_own():
    alone = dataclasses.replace(EVEN, pulled=0.0, cpu_secs=1e-6)
    assert batches_per_sec(alone, WIRE, workers=4, cores=8, ahead=False) == pytest.approx(4 / 0.015)


def test_all_tasks_share_the_cores():
    busy = dataclasses.replace(EVEN, cpu_secs=0.1)
    assert batches_per_sec(busy, WIRE, workers=2, cores=2, ahead=True) == pytest.approx(20)
