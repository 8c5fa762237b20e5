"""Signs of life of a worker of the unfused engine, and its place in the cluster."""

from __future__ import annotations

import threading
import time
import types
from typing import Any

import pytest
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, LostTaskError
from ps_train.cluster.membership.records import TaskState, TaskStatus, new_task_status, task_key
from ps_train.compat.capture import uncaptured_cluster
from ps_train.compat.capture.uncaptured_cluster import Presence, join_cluster, local_place
from tests.support.processes import eventually


class Store:
    """A store that remembers what was written; it can lose its ps."""

    def __init__(self) -> None:
        self.written: list[tuple[str, TaskStatus]] = []
        self.is_lost = False

    def set(self, key: str, value: str) -> None:
        if self.is_lost:
            raise LostTaskError("ps:0 is gone")
        self.written.append((key, TaskStatus.from_json(value)))

    @property
    def states(self) -> list[TaskState]:
        return [status.state for _, status in self.written]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    at_exit: list[Any] = []
    monkeypatch.setattr(uncaptured_cluster, "_BEAT_SECS", 0.01)
    monkeypatch.setattr(uncaptured_cluster.atexit, "register", at_exit.append)
    return at_exit


def test_every_ps_sees_a_heartbeat_that_moves_until_the_worker_leaves(quick: list[Any]) -> None:
    stores = [Store(), Store()]
    presence = Presence(stores, new_task_status("worker:1"))  # type: ignore[arg-type]
    presence.start()
    for store in stores:
        eventually(lambda store=store: len(store.written) >= 3, 10)
    (at_exit,) = quick
    at_exit()
    for store in stores:
        assert {key for key, _ in store.written} == {task_key("worker:1")}
        beats = [status.heartbeat for _, status in store.written]
        assert beats == list(range(1, len(beats) + 1))
        assert set(store.states[:-1]) == {TaskState.TRAINING} and store.states[-1] == TaskState.LEFT


def test_a_ps_that_is_lost_and_comes_back_is_told_again(quick: list[Any]) -> None:
    lost, other = Store(), Store()
    lost.is_lost = True
    presence = Presence([lost, other], new_task_status("worker:1"))  # type: ignore[arg-type]
    presence.start()
    eventually(lambda: len(other.written) >= 3, 10)
    assert not lost.written
    lost.is_lost = False
    eventually(lambda: bool(lost.written), 10)
    presence.leave()
    assert lost.states[-1] == other.states[-1] == TaskState.LEFT


def test_a_ps_that_does_not_answer_does_not_keep_a_process_from_its_end(
    monkeypatch: pytest.MonkeyPatch, quick: list[Any]
) -> None:
    silent = threading.Event()

    class Silent(Store):
        def set(self, key: str, value: str) -> None:
            silent.wait(30)

    monkeypatch.setattr(uncaptured_cluster, "_LAST_SECS", 0.05)
    presence = Presence([Silent()], new_task_status("worker:1"))  # type: ignore[list-item]
    presence.start()
    start = time.monotonic()
    presence.leave()
    assert time.monotonic() - start < 20
    silent.set()


def config_of(cluster: dict[str, list[str]]) -> Any:
    spec = v1.train.ClusterSpec(cluster)
    return types.SimpleNamespace(cluster_spec=spec, task_type="worker", task_id=0, session_config=None, job=None)


def test_a_cluster_without_ps_is_refused() -> None:
    with pytest.raises(ConfigError, match="has workers but no ps"):
        join_cluster(config_of({"worker": ["localhost:1"]}))


def test_a_program_without_a_cluster_has_a_session_of_its_own_process() -> None:
    config = config_of({})
    config.session_config = v1.ConfigProto(inter_op_parallelism_threads=3)
    place = local_place(config)
    assert (place.master, place.worker_device, place.num_ps) == ("", "", 0)
    assert place.session_config.inter_op_parallelism_threads == 3
