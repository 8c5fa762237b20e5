"""Checkpoints are saved and restored in a graph of their own, and prepare nothing in that of the step."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf

from ps_train.models.digits import Digits
from tests.support.clusters.cluster import InProcessCluster


def test_a_checkpoint_is_taken_and_restored_without_a_new_call_in_the_session_of_the_step(
    tmp_path: pathlib.Path,
) -> None:
    cluster = InProcessCluster(Digits(hidden=16), 2, 1, tmp_path, optimizer="adam", batch_size=8)
    cluster.start()
    assert cluster.checkpoints is not None and cluster.snapshots is not None
    cluster.train(3)
    before, session = cluster.values(), cluster.sessions[0]
    prepared, operations = set(session._prepared), len(cluster.steps[0].graph.get_operations())
    cluster.snapshots.warm_up(session)
    assert cluster.snapshots.save(session) == 3
    assert session._prepared == prepared
    assert len(cluster.steps[0].graph.get_operations()) == operations
    cluster.train(2)
    assert any((value != before[name]).any() for name, value in cluster.values().items())
    assert cluster.checkpoints.restore(session) == 3
    for name, value in cluster.values().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_the_saving_graph_has_each_variable_once_under_its_name_and_on_its_ps(tmp_path: pathlib.Path) -> None:
    cluster = InProcessCluster(Digits(hidden=16), 2, 1, tmp_path, optimizer="adam", batch_size=8)
    assert cluster.snapshots is not None

    def places(graph: tf.Graph) -> list[tuple[str, str]]:
        handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
        return sorted((op.get_attr("shared_name").decode(), op.device) for op in handles)

    stored = {(one.variable.handle.op.get_attr("shared_name").decode(), one.variable.device)
              for one in cluster.steps[0].ps.entries}  # fmt: skip
    found = [place for place in places(cluster.snapshots.graph) if not place[0].startswith("ps_train/shadow/")]
    assert len(found) == len(set(found)) and stored <= set(found)
    assert set(found) <= set(places(cluster.steps[0].graph))
