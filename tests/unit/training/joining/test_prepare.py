"""The preparation of a task: what this machine cannot hold is refused before the first step."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError, ModelError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.training.joining.prepare import check_batch, check_memory

GIB = 1 << 30
SPECS = [VariableSpec("ads", (2**31 - 1, 64), "float32", 4), VariableSpec("w", (3,), "float32", 4)]


def cluster(*ps: str) -> Cluster:
    return Cluster.of(Job(ps_hosts=ps, worker_hosts=("worker:1",)))


def test_variables_beyond_the_memory_of_this_machine_are_refused_with_the_largest() -> None:
    with pytest.raises(ModelError) as caught:
        check_memory(make_plan(SPECS, 2), cluster("127.0.0.1:1", "localhost:2"), 16.0 * GIB)
    assert str(caught.value).startswith("the variables take 512.0 GiB on the ps of this machine, which has 16.0 GiB of")
    assert "the largest is ads with 512.0 GiB: use fewer rows" in str(caught.value)


def test_ps_elsewhere_and_what_is_not_known_are_not_judged() -> None:
    plan = make_plan(SPECS, 2)
    check_memory(plan, cluster("a:1", "b:2"), 16.0 * GIB)
    check_memory(plan, cluster("127.0.0.1:1", "b:2"), 300.0 * GIB)
    check_memory(plan, cluster("127.0.0.1:1", "localhost:2"), None)


def test_batches_beyond_the_memory_of_this_machine_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^batch_size=2000000000 needs 67.1 GiB for a batch, and this"):
        check_batch(Job(batch_size=2_000_000_000), 4000, 36, 16.0 * GIB)


def test_batches_that_the_data_cannot_fill_and_unknown_memory_are_not_judged() -> None:
    check_batch(Job(batch_size=2_000_000_000, epochs=3), 4000, 36, 16.0 * GIB)
    check_batch(Job(batch_size=2_000_000_000), 4000, 36, None)
    check_batch(Job(batch_size="32..512"), -2, 36, 16.0 * GIB)
