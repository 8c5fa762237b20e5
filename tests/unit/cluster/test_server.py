"""Configurations of servers and sessions."""

from __future__ import annotations

import pytest

from ps_train.cluster.server import session_config
from ps_train.cluster.spec import Cluster
from ps_train.config.job import Job
from ps_train.config.task import Task


@pytest.mark.parametrize(("gpus", "growth", "count"), [(0, True, {"GPU": 0}), (2, False, {"GPU": 2}), (-1, True, {})])
def test_the_devices_of_a_worker_can_be_set(gpus: int, growth: bool, count: dict[str, int]) -> None:
    job = Job(ps_hosts=("p:1",), worker_hosts=("a:1", "b:1"), gpus=gpus, gpu_memory_growth=growth)
    config = session_config(Cluster.of(job), Task("worker", 1), job)
    assert dict(config.device_count) == count and config.gpu_options.allow_growth == growth
    tasks = {one.name: dict(one.tasks) for one in config.cluster_def.job}
    assert tasks == {"ps": {0: "p:1"}, "worker": {1: "b:1"}}, "a session knows the ps and itself"
