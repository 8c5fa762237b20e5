"""A codec that changes while a cluster trains: values are those of a cluster without one, up to what is kept."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.following import FollowingPart
from tests.support.clusters.coded import Fixed, cluster_of, finish, values_of
from tests.support.long import long
from tests.support.models.tables import Bags

NUMBERS = (0, 1, 2, 2, 0, 0, 1)


def train(cluster, numbers):
    """Makes one call with each codec."""
    with cluster.steps[0].graph.as_default():
        (codec,) = [part.adapted for part in cluster.steps[0].parts.of(FollowingPart)]
        wanted, change = codec.change(cluster.steps[0].ps.global_step)
    for number in numbers:
        cluster.sessions[0].run(change, {wanted: number})
        cluster.train(1)


@pytest.mark.long
@pytest.mark.parametrize(
    "fields", [{"update": "sync"}, long({"steps_per_run": "4", "prefetch_pulls": 1}), long({"update": "bounded"})]
)
def test_values_are_exact_at_the_end_whatever_codecs_a_run_has_used(fields):
    plain, auto = cluster_of(Fixed(), **fields), cluster_of(Fixed(), push_codec="auto", **fields)
    plain.train(len(NUMBERS))
    train(auto, NUMBERS)
    finish(auto)
    for key, value in values_of(auto).items():
        assert value == pytest.approx(values_of(plain)[key], abs=2e-5)


def test_without_a_codec_it_is_the_same_to_the_bit_and_leaves_nothing_out():
    plain, auto = cluster_of(Fixed(), update="sync"), cluster_of(Fixed(), push_codec="auto", update="sync")
    plain.train(3)
    train(auto, [0, 0, 0])
    before = values_of(auto)
    assert all(np.array_equal(value, before[key]) for key, value in values_of(plain).items())
    finish(auto)
    assert all(np.array_equal(value, before[key]) for key, value in values_of(auto).items())


@pytest.mark.long
def test_rows_of_tables_are_encoded_by_the_codec_of_the_step():
    found = {}
    for codec, numbers in (("none", None), ("auto", (0, 1, 0))):
        cluster = cluster_of(Bags(count=400, dense=True), push_codec=codec, update="sync", batch_size=8)
        cluster.train(3) if numbers is None else train(cluster, numbers)
        found[codec] = values_of(cluster)
    for key, value in found["auto"].items():
        assert value == pytest.approx(found["none"][key], abs=1e-2)


def test_the_graph_of_a_fixed_codec_has_nothing_of_it():
    cluster = cluster_of(Fixed(), push_codec="int8")
    names = [op.name for op in cluster.steps[0].graph.get_operations()]
    assert not [name for name in names if "ps_train/push_codec" in name]
    assert not cluster.steps[0].parts.of(FollowingPart) and isinstance(cluster.steps[0].ops.train[0], v1.Operation)
