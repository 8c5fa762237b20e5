"""Shadow copies take no memory between checkpoints."""

from __future__ import annotations

import pathlib

from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Counting

FIELDS = {"batch_size": 1, "max_steps": 1_000_000}


def made(directory: pathlib.Path, num_ps: int, workers: int, **fields: object) -> InProcessCluster:
    cluster = InProcessCluster(Counting(), num_ps, workers, directory, **{**FIELDS, **fields})
    cluster.start()
    return cluster


def test_copies_take_no_memory_between_checkpoints(tmp_path: pathlib.Path) -> None:
    cluster = made(tmp_path, 2, 1)
    assert cluster.snapshots is not None
    cluster.snapshots.save(cluster.sessions[0])
    operations = cluster.snapshots.graph.get_operations()
    copies = [op for op in operations if op.type == "VarHandleOp" and op.name.startswith("ps_train/shadow")]
    assert len(copies) > 2
    assert not any(cluster.exist(copies))
