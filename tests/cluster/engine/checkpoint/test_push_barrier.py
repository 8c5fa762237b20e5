"""The push barrier ends by itself, and no checkpoint is taken while an update is applied on only some ps."""

from __future__ import annotations

import pathlib
import time

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import SaveError
from ps_train.engine.checkpoint import push_barrier
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Counting

FIELDS = {"batch_size": 1, "max_steps": 1_000_000}


def made(directory: pathlib.Path, num_ps: int, workers: int, **fields: object) -> InProcessCluster:
    cluster = InProcessCluster(Counting(), num_ps, workers, directory, **{**FIELDS, **fields})
    cluster.start()
    return cluster


def test_a_barrier_that_is_not_released_ends_by_itself(tmp_path: pathlib.Path) -> None:
    cluster = made(tmp_path, 2, 1)
    held = push_barrier.PushBarrier
    assert cluster.snapshots is not None and isinstance(cluster.snapshots._barrier, held)
    with (
        pytest.raises(tf.errors.DeadlineExceededError),
        cluster.snapshots._barrier.held(cluster.sessions[0], timeout_secs=1),
    ):
        time.sleep(2)
    cluster.train(2)
    assert cluster.snapshots.save(cluster.sessions[0]) == 2


def test_an_update_that_reached_one_ps_only_is_reported_once_and_delays_one_checkpoint_only(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_barrier, "SETTLE_SECS", 1.5)
    cluster = made(tmp_path, 2, 1)
    assert cluster.snapshots is not None
    cluster.train(2)
    cluster.sessions[0].run(cluster.steps[0].ops.train[1])  # what is left of a worker that was killed
    assert cluster.snapshots.save(cluster.sessions[0]) == 2
    assert caplog.text.count("its worker died or is stalled") == 1
    cluster.train(1)
    assert cluster.snapshots.save(cluster.sessions[0]) == 3
    assert caplog.text.count("its worker died or is stalled") == 1
    assert cluster.snapshots._hold_secs[0] >= 1.5 > cluster.snapshots._hold_secs[1]


@pytest.mark.long
def test_a_round_that_is_complete_on_one_ps_only_is_no_state_to_be_saved(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_barrier, "SETTLE_SECS", 0.3)
    cluster = made(tmp_path, 2, 1, update="sync")
    assert cluster.snapshots is not None
    cluster.train(2)
    with cluster.steps[0].graph.as_default():
        on_one = cluster.steps[0].ops.push_counters[1].assign_sub(1, read_value=False)
        on_both = cluster.steps[0].ops.push_counters[1].assign_add(1, read_value=False)
    cluster.sessions[0].run(on_one)
    with pytest.raises(SaveError, match="an update has been applied on only some ps"):
        cluster.snapshots.save(cluster.sessions[0])
    cluster.sessions[0].run(on_both)
    assert cluster.snapshots.save(cluster.sessions[0]) == 2


def test_push_counters_that_differ_as_is_known_or_not_at_all_are_not_torn() -> None:
    marks = np.array([[5, 7], [5, 8]])
    assert push_barrier.torn_counters(marks, None).any()
    assert not push_barrier.torn_counters(marks, np.array([[0, 0], [0, 1]])).any()
    assert not push_barrier.torn_counters(np.array([[5, 8], [5, 8]]), np.array([[0, 0], [0, 1]])).any()
    assert push_barrier.torn_counters(np.array([[6, 8], [5, 9]]), np.array([[0, 0], [0, 1]])).any()
