"""Checkpoints that are taken while others train: of one global step, and training goes on while they are written."""

from __future__ import annotations

import pathlib
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from ps_train.checkpoint import push_barrier
from ps_train.checkpoint.files import checkpoints_in
from ps_train.errors import SaveError
from tests.support.cluster import InProcessCluster
from tests.support.long import long
from tests.support.loops import training
from tests.support.models import Counting
from tests.support.processes import eventually

FIELDS = {"batch_size": 1, "max_steps": 1_000_000}
AHEAD = {"steps_per_run": "4", "prefetch_pulls": 1}
UPDATES = [
    pytest.param("async", {}, id="async"),
    pytest.param("async", {"steps_per_run": "4"}, id="async in runs"),
    pytest.param("async", AHEAD, id="async, pulling ahead"),
    pytest.param("bounded", {"max_steps_ahead": 2}, id="bounded"),
    pytest.param("sync", {}, id="sync"),
]
MODES = pytest.mark.parametrize(("update", "fields"), UPDATES)


def made(directory: pathlib.Path, num_ps: int, workers: int, **fields: object) -> InProcessCluster:
    cluster = InProcessCluster(Counting(), num_ps, workers, directory, **{**FIELDS, **fields})
    cluster.start()
    return cluster


def counts(path: str) -> tuple[set[float], int]:
    """What the two variables hold, and the global step."""
    reader = tf.train.load_checkpoint(path)
    return {*reader.get_tensor("first"), *reader.get_tensor("second")}, int(reader.get_tensor("global_step"))


@MODES
@pytest.mark.parametrize("max_snapshot_mib", [256, long(0)], ids=["from copies", "under a hold"])
def test_every_checkpoint_is_the_state_at_one_global_step(
    tmp_path: pathlib.Path, update: str, fields: dict, max_snapshot_mib: int
) -> None:
    cluster = made(tmp_path, 2, 3, update=update, max_snapshot_mib=max_snapshot_mib, keep_checkpoints=100, **fields)
    assert cluster.snapshots is not None and {piece.ps for piece in cluster.plan.slices} == {0, 1}
    with training(cluster):
        for _ in range(12):
            saved = cluster.snapshots.save(cluster.sessions[0])
            eventually(lambda saved=saved: cluster.global_step() > saved, 30, "an update after the save")
    found = checkpoints_in(str(tmp_path))
    assert len(found) == 12
    for step, path in found:
        assert counts(path) == ({float(step)}, step)
    assert cluster.snapshots.report()["count"] == 12


def test_training_makes_progress_while_a_slow_disk_takes_the_checkpoint(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = made(tmp_path, 2, 2)
    assert cluster.snapshots is not None and cluster.checkpoints is not None
    write, slow = cluster.checkpoints._write, threading.Event()

    def wait_and_write(*arguments: object) -> None:
        slow.wait(30)
        write(*arguments)

    monkeypatch.setattr(cluster.checkpoints, "_write", wait_and_write)
    with training(cluster):
        cluster.snapshots.start(cluster.sessions[0])
        begun = cluster.global_step()
        deadline = time.monotonic() + 20
        while cluster.global_step() < begun + 50:
            assert time.monotonic() < deadline
        assert cluster.snapshots.busy and cluster.snapshots.poll() is None
        slow.set()
        cluster.snapshots.wait(cluster.sessions[0])
    step = cluster.snapshots.poll()
    assert step is not None and step <= begun
    assert counts(cluster.checkpoints.path(step)) == ({float(step)}, step)


@pytest.mark.parametrize("max_snapshot_mib", [256, 0])
def test_a_save_that_fails_leaves_the_one_before_and_the_next_is_as_good(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, max_snapshot_mib: int
) -> None:
    cluster = made(tmp_path, 2, 1, max_snapshot_mib=max_snapshot_mib)
    assert cluster.snapshots is not None and cluster.checkpoints is not None
    cluster.train(3)
    assert cluster.snapshots.save(cluster.sessions[0]) == 3

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(cluster.checkpoints, "_write", full)
        cluster.train(2)
        with pytest.raises(SaveError, match="No space left"):
            cluster.snapshots.save(cluster.sessions[0])
    assert [step for step, _ in checkpoints_in(str(tmp_path))] == [3]
    assert counts(checkpoints_in(str(tmp_path))[0][1]) == ({3.0}, 3)
    cluster.train(2)
    assert cluster.snapshots.save(cluster.sessions[0]) == 7
    assert counts(checkpoints_in(str(tmp_path))[0][1]) == ({7.0}, 7)


def test_a_rehearsal_is_not_a_checkpoint_and_not_reported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = made(tmp_path, 2, 1)
    assert cluster.snapshots is not None
    with monkeypatch.context() as slow:
        run = cluster.sessions[0].run
        slow.setattr(cluster.sessions[0], "run", lambda *args, **fields: (time.sleep(0.01), run(*args, **fields))[1])
        cluster.snapshots.warm_up(cluster.sessions[0])
    assert not checkpoints_in(str(tmp_path)) and cluster.snapshots.poll() is None
    cluster.snapshots.save(cluster.sessions[0])
    report = cluster.snapshots.report()
    assert report is not None and report["count"] == 1
    assert report["hold_secs_mean"] == report["hold_secs_max"], "the one hold, not a slower one before it"


def test_a_hold_that_is_not_ended_ends_by_itself(tmp_path: pathlib.Path) -> None:
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


def test_an_update_that_reached_one_ps_only_is_told_of_once_and_holds_nobody_up_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_barrier, "SETTLE_SECS", 0.3)
    cluster = made(tmp_path, 2, 1)
    assert cluster.snapshots is not None
    cluster.train(2)
    cluster.sessions[0].run(cluster.steps[0].ops.train[1])  # what is left of a worker that was killed
    assert cluster.snapshots.save(cluster.sessions[0]) == 2
    assert caplog.text.count("its worker died or is stalled") == 1
    cluster.train(1)
    assert cluster.snapshots.save(cluster.sessions[0]) == 3
    assert caplog.text.count("its worker died or is stalled") == 1
    assert cluster.snapshots._hold_secs[0] >= 0.3 > cluster.snapshots._hold_secs[1]


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


def test_marks_that_differ_as_is_known_or_not_at_all_are_no_update_in_part() -> None:
    marks = np.array([[5, 7], [5, 8]])
    assert push_barrier.torn_counters(marks, None).any()
    assert not push_barrier.torn_counters(marks, np.array([[0, 0], [0, 1]])).any()
    assert not push_barrier.torn_counters(np.array([[5, 8], [5, 8]]), np.array([[0, 0], [0, 1]])).any()
    assert push_barrier.torn_counters(np.array([[6, 8], [5, 9]]), np.array([[0, 0], [0, 1]])).any()


def test_copies_take_no_memory_between_checkpoints(tmp_path: pathlib.Path) -> None:
    cluster = made(tmp_path, 2, 1)
    assert cluster.snapshots is not None and cluster.snapshots._shadows is not None
    cluster.snapshots.save(cluster.sessions[0])
    with cluster.steps[0].graph.as_default():
        there = [tf.raw_ops.VarIsInitializedOp(resource=v.variable.handle) for v in cluster.snapshots._shadows.entries]
    assert not any(cluster.sessions[0].run(there))
