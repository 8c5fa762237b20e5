"""At the end nothing is left out: the sum of all gradients is applied, and steps are reproducible."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.coded import Fixed, cluster_of, finish, values_of
from tests.support.long import long

ALL = ("bfloat16", "float16", "int8", "top_k:0.05", "top_k:0.05,int8")
MODES = (("async", 1, 4), ("async", 2, 1), ("sync", 2, 4), ("bounded", 2, 1))
QUICK = [("bfloat16", "async", 1, 2), ("int8", "sync", 2, 2), ("top_k:0.05", "bounded", 2, 1)]


@pytest.mark.parametrize(
    ("codec", "update", "workers", "run"), [*QUICK, *(long(codec, *mode) for codec in ALL for mode in MODES)]
)
@pytest.mark.usual(1)
def test_pushes_and_what_they_leave_out_are_the_sum_of_all_gradients(codec, update, workers, run):
    plain, coded = (
        cluster_of(Fixed(), workers, run=run, update=update, push_codec=name, accumulate=2) for name in ("none", codec)
    )
    for cluster in (plain, coded):
        cluster.train(8, run)
    expected, before = values_of(plain), values_of(coded)
    assert any(np.abs(before[key] - expected[key]).max() > 1e-5 for key in expected), "something is left out"
    finish(coded)
    for key, value in values_of(coded).items():
        assert value == pytest.approx(expected[key], abs=2e-5)
    counts = [cluster.sessions[0].run(cluster.steps[0].global_step) for cluster in (plain, coded)]
    assert counts[0] == counts[1]


@pytest.mark.long
@pytest.mark.parametrize("pull", ["bfloat16", "int8"])
@pytest.mark.parametrize("codec", [long("bfloat16"), "int8", long("top_k:0.05"), long("top_k:0.05,int8")])
@pytest.mark.usual(1)
def test_two_synchronous_workers_are_reproducible_bit_by_bit_whatever_the_length_of_a_call(codec, pull):
    found = []
    for run in (1, 1, 3):
        cluster = cluster_of(Fixed(), 2, run=run, update="sync", push_codec=codec, pull_codec=pull)
        cluster.train(12, run)
        finish(cluster)
        found.append(values_of(cluster))
    for other in found[1:]:
        for key, value in found[0].items():
            assert np.array_equal(value, other[key])
