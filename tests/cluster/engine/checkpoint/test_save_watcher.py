"""Checkpoints are begun when they are due, whatever the chief's own steps take."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import threading
from collections.abc import Iterator

import pytest

from ps_train.engine.checkpoint.files import checkpoints_in
from ps_train.engine.checkpoint.save_hook import SaveHook
from ps_train.engine.checkpoint.save_watcher import SaveWatcher
from tests.support.clusters.cluster import InProcessCluster
from tests.support.machine.processes import eventually
from tests.support.models.small import Counting


@contextlib.contextmanager
def watched(directory: pathlib.Path, every_steps: int = 0, every_secs: float = 0.0) -> Iterator[tuple]:
    """A chief that makes no step of its own, as if it were inside a very long one, and a worker that the test moves."""
    cluster = InProcessCluster(Counting(), 2, 2, directory, update="async", max_steps=10**6, batch_size=1)
    cluster.start()
    assert cluster.snapshots is not None
    hook = SaveHook(cluster.snapshots, cluster.steps[0].ops.step_after, every_steps, every_secs)
    hook.started(0, saved=0)
    watcher = SaveWatcher(hook, cluster.steps[0].ps.global_step, cluster.sessions[0], threading.Event().is_set)
    watcher.start()
    step = cluster.steps[1].steps_per_call(1)
    try:
        yield cluster, hook, lambda: cluster.sessions[1].run(step)
    finally:
        watcher.stop()
        watcher.join()
        cluster.snapshots.wait(cluster.sessions[0])


def steps_in(directory: pathlib.Path) -> list[int]:
    return sorted(step for step, _ in checkpoints_in(str(directory)))


def test_a_slow_chief_saves_at_each_due_step_that_another_worker_reaches(tmp_path: pathlib.Path) -> None:
    with watched(tmp_path, every_steps=10) as (cluster, _, train):
        for due in (10, 20, 30):
            while cluster.global_step() < due:
                train()
            eventually(lambda due=due: due in steps_in(tmp_path), 30, f"the checkpoint of step {due}")
            assert not cluster.snapshots.busy or cluster.snapshots.wait(cluster.sessions[0]) is None
    assert steps_in(tmp_path) == [10, 20, 30]


@pytest.mark.long
def test_a_slow_chief_saves_when_the_time_has_come(tmp_path: pathlib.Path) -> None:
    with watched(tmp_path, every_secs=0.5) as (_, hook, train):
        train()
        eventually(lambda: steps_in(tmp_path) == [1], 30, "the first checkpoint")
        hook.poll()
        train()
        eventually(lambda: steps_in(tmp_path) == [1, 2], 30, "the second checkpoint")


@pytest.mark.long
def test_a_slow_disk_makes_the_next_checkpoint_late_and_a_line_says_why(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with watched(tmp_path, every_steps=10) as (cluster, hook, train):
        write, disk = cluster.checkpoints._write, threading.Event()
        monkeypatch.setattr(cluster.checkpoints, "_write", lambda *args: (disk.wait(60), write(*args))[1])
        while cluster.global_step() < 10:
            train()
        eventually(lambda: cluster.snapshots.busy, 30, "the first checkpoint is being written")
        while cluster.global_step() < 31:
            train()
        eventually(lambda: hook.waits_for_disk, 30, "the second checkpoint is due")
        disk.set()
        eventually(lambda: steps_in(tmp_path) == [10, 31], 30, "the late checkpoint, at the first possible moment")
        cluster.snapshots.wait(cluster.sessions[0])
        with caplog.at_level(logging.WARNING):
            hook.poll()
    assert hook.late == 1 and hook.step == 31
    assert "a checkpoint was due at step 20 and was begun" in caplog.text and "at step 31" in caplog.text
    assert "the one before was still being written" in caplog.text
