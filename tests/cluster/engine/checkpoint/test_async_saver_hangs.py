"""A checkpoint that hangs is given up with its session."""

from __future__ import annotations

import pathlib
import threading

import pytest

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.sessions import abandonable as attempts
from ps_train.cluster.sessions.abandonable import run_abandonable
from ps_train.cluster.sessions.calls import LostConnectionError, RepeatingSession, SessionGroup
from ps_train.cluster.sessions.server import session_config
from ps_train.config.job import Task
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECS", 0.2)


def test_a_wait_for_a_checkpoint_that_is_never_written_is_given_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = InProcessCluster(Linear(), 2, 1, tmp_path)
    cluster.start()
    assert cluster.snapshots is not None and cluster.checkpoints is not None
    silent = threading.Event()
    monkeypatch.setattr(cluster.checkpoints, "_write", lambda *_: silent.wait(60))
    task, group = Task("worker", 0), SessionGroup()
    config = session_config(Cluster.of(cluster.job), task, cluster.job)
    session = RepeatingSession(cluster.targets[0], cluster.steps[0].graph, config, group)
    group.add(session)
    ended = threading.Event()

    def save() -> None:
        cluster.snapshots.start(session)
        ended.set()
        cluster.snapshots.wait(session)

    with pytest.raises(LostConnectionError):
        run_abandonable(save, group, ended.is_set)
    silent.set()


@pytest.mark.usual(1)
@pytest.mark.parametrize("where", ["_take", "_write"])
def test_a_thread_that_hangs_in_a_checkpoint_of_its_session_keeps_the_next_one_from_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    cluster = InProcessCluster(Linear(), 2, 1, tmp_path)
    cluster.start()
    assert cluster.snapshots is not None
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        hangs.set()
        goes_on.wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(cluster.snapshots, where, hang)
        lost = threading.Thread(target=cluster.snapshots.start, args=[cluster.sessions[0]], daemon=True)
        lost.start()
        assert hangs.wait(20)
    cluster.open_again(0)
    cluster.snapshots.begin_session()
    assert not cluster.snapshots.busy
    cluster.train(3)
    saved: list[int] = []
    again = threading.Thread(target=lambda: saved.append(cluster.snapshots.save(cluster.sessions[0])), daemon=True)
    again.start()
    again.join(20)
    assert saved == [3]
    goes_on.set()
    lost.join(20)
    assert not lost.is_alive()
