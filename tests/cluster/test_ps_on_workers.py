"""Workers that are also the ps: the numbers of as many ps of their own, and no message to oneself."""

from __future__ import annotations

import collections
import re
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as v1

from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.tables import Bags

EDGE = re.compile(r"from (\S*?)/device\S* to (\S*?)/device")


def cluster(workers: int, ps_on_workers: bool, **fields: Any) -> InProcessCluster:
    settings = {"learning_rate": 0.05, "batch_size": 6, "ps_on_workers": ps_on_workers, **fields}
    found = InProcessCluster(Bags(dense=True), 2, workers, partition_bytes=8, **settings)
    found.start()
    return found


def test_a_worker_sends_its_own_share_no_message() -> None:
    found = cluster(2, True, update="async")
    found.train(2)
    metadata, options = v1.RunMetadata(), v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    options.output_partition_graphs = True
    found.sessions[1].run(found.steps[1].steps_per_call(1), options=options, run_metadata=metadata)
    labels = [
        node.timeline_label for one in metadata.step_stats.dev_stats for node in one.node_stats
        if node.node_name == "RecvTensor"
    ]  # fmt: skip
    sent = collections.Counter(edge.groups() for label in labels if (edge := re.search(EDGE, label)))
    assert sent, labels  # on a busy machine TensorFlow loses some of what the other process recorded
    assert {source for source, target in sent if source == target} == set()
    own = "/job:ps/replica:0/task:1"
    within = [
        node for graph in metadata.partition_graphs for node in graph.node
        if node.op == "_Recv" and {_task(node.attr[f"{end}_device"].s.decode()) for end in ("send", "recv")} == {own}
    ]  # fmt: skip
    assert within, "its own share goes from one device of the process to another"


def _task(device: str) -> str:
    return device.partition("/device")[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"update": "sync"},
        long({"update": "sync", "steps_per_run": "4", "push_codec": "top_k:0.5"}),
        long({"update": "async", "pull_codec": "bfloat16", "push_codec": "int8"}),
        long({"update": "bounded", "optimizer": "lazy_adam"}),
    ],
    ids=str,
)
def test_all_values_tables_too_are_those_of_as_many_ps(fields: dict[str, Any]) -> None:
    run = int(fields.get("steps_per_run", "1"))
    apart, here = (trained(cluster(2, ps_on_workers, **fields), run) for ps_on_workers in (False, True))
    assert apart.keys() == here.keys()
    for name, value in apart.items():
        np.testing.assert_array_equal(here[name], value, err_msg=name)


def trained(made: InProcessCluster, run: int) -> dict[str, np.ndarray]:
    """The values after four steps; in turn where the order of updates matters."""
    if made.job.update == "sync":
        made.train(4, run)
    else:
        for _ in range(4):
            for session, step in zip(made.sessions, made.steps, strict=True):
                session.run(step.steps_per_call(run))
    return made.values()


@pytest.mark.long
def test_pulls_ahead_of_their_step_train_too() -> None:
    made = cluster(2, True, update="async", prefetch_pulls=True, steps_per_run="4")
    made.train(8, 4)
    assert made.global_step() == 16
