"""A lead and a number of backup workers that change while a cluster trains."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.small import Linear

BRIEF = v1.RunOptions(timeout_in_ms=1500)
MODES = {
    "bounded": ({"update": "bounded", "max_steps_ahead": "0..2"}, "max_steps_ahead"),
    "sync": ({"update": "sync", "backup_workers": "auto"}, "backup_workers"),
}


def is_alone(cluster: InProcessCluster) -> bool:
    """Whether worker 0 makes a step, although worker 1 makes none."""
    try:
        cluster.sessions[0].run(cluster.steps[0].ops.train, options=BRIEF)
    except tf.errors.DeadlineExceededError:
        return False
    return True


@pytest.mark.parametrize("mode", ["bounded", long("sync")])
@pytest.mark.parametrize("num_ps", [2, long(1)])
def test_a_larger_limit_lets_a_worker_go_on_without_the_slowest(mode: str, num_ps: int) -> None:
    fields, name = MODES[mode]
    cluster = InProcessCluster(Linear(count=400), num_ps, 2, partition_bytes=4, **fields)
    cluster.start()
    cluster.train(4)
    with cluster.steps[0].graph.as_default():
        variable = next(v for v in v1.global_variables() if v.op.name == f"ps_train/{name}")
        larger = variable.assign(1, read_value=False)
    session = cluster.sessions[0]
    assert session.run(variable) == 0
    session.run(larger)
    assert is_alone(cluster)
    if mode == "bounded":
        assert not is_alone(cluster), "it is one step ahead now, and no more"
    else:
        assert is_alone(cluster), "each round goes on without the other"
