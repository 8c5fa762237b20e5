"""Checkpoints taken while others train: each is of one global step, and training goes on while it is written."""

from __future__ import annotations

import pathlib
import threading
import time

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import SaveError
from ps_train.engine.checkpoint.files import checkpoints_in
from ps_train.engine.checkpoint.save_listeners import SaveListeners
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.loops import training
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.small import Counting

FIELDS = {"batch_size": 1, "max_steps": 1_000_000}


AHEAD = {"steps_per_run": "4", "prefetch_pulls": 1}


UPDATES = [
    pytest.param("async", {}, id="async"),
    pytest.param("async", {"steps_per_run": "4"}, id="async in runs", marks=pytest.mark.long),
    pytest.param("async", AHEAD, id="async, pulling ahead"),
    pytest.param("bounded", {"max_steps_ahead": 2}, id="bounded", marks=pytest.mark.long),
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_warm_up_is_not_a_checkpoint_and_not_reported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = made(tmp_path, 2, 1)
    assert cluster.snapshots is not None
    with monkeypatch.context() as slow:
        run = cluster.saving.run
        slow.setattr(cluster.saving, "run", lambda *args, **fields: (time.sleep(0.01), run(*args, **fields))[1])
        cluster.snapshots.warm_up(cluster.sessions[0])
    assert not checkpoints_in(str(tmp_path)) and cluster.snapshots.poll() is None
    cluster.snapshots.save(cluster.sessions[0])
    report = cluster.snapshots.report()
    assert report is not None and report["count"] == 1
    assert report["hold_secs_mean"] == report["hold_secs_max"], "the one hold, not a slower one before it"


def test_listeners_hear_of_each_checkpoint_before_the_next_one_begins(tmp_path: pathlib.Path) -> None:
    told: list[tuple[str, int]] = []

    class Listener(v1.train.CheckpointSaverListener):
        def before_save(self, session: v1.Session, global_step_value: int) -> None:
            told.append(("before", global_step_value))

        def after_save(self, session: v1.Session, global_step_value: int) -> None:
            told.append(("after", global_step_value))

    cluster = made(tmp_path, 1, 1)
    assert cluster.snapshots is not None and cluster.checkpoints is not None
    cluster.checkpoints.listeners = SaveListeners([Listener()], print)
    session = cluster.sessions[0]
    for _ in range(2):  # nobody polls between these
        cluster.snapshots.start(session)
        session.run(cluster.steps[0].ops.train)
    assert cluster.snapshots.save(session) == 2
    assert told == [(what, step) for step in (0, 1, 2) for what in ("before", "after")]
