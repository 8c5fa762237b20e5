"""A program without a cluster gets one inside of its process."""

from __future__ import annotations

import threading
import time
import types
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import JobFailedError
from ps_train.cluster.addresses.ports import release_held_port
from ps_train.compat.capture import local_cluster as module
from ps_train.compat.capture.local_cluster import LocalConfig, local_ps
from ps_train.config.job import Job, Task

CONFIG = types.SimpleNamespace(cluster_spec=v1.train.ClusterSpec({}), tf_random_seed=7, job=None, is_chief=False)


class Ps:
    """The role of a ps that ends when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[Job, Task, Any]] = []
        self.may_end, self.has_begun, self._error = threading.Event(), threading.Event(), error

    def run(self, job: Job, task: Task, console: Any) -> None:
        self.calls.append((job, task, console))
        self.has_begun.set()
        self.may_end.wait(30)
        if self._error is not None:
            raise self._error


@pytest.fixture(autouse=True)
def reset(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the targets whose variables are freed."""
    targets: list[str] = []
    monkeypatch.setattr(v1.Session, "reset", targets.append)
    return targets


def test_the_config_is_that_of_the_worker_with_a_ps_beside_it(
    monkeypatch: pytest.MonkeyPatch, reset: list[str]
) -> None:
    role = Ps()
    monkeypatch.setattr(module, "ps", role)
    console: Any = object()
    own = LocalConfig(CONFIG)
    with local_ps(own, console):
        assert role.has_begun.wait(10)
        cluster = own.cluster_spec.as_dict()
        assert (own.task_type, own.task_id, own.is_chief, own.tf_random_seed) == ("worker", 0, True, 7)
        assert [len(cluster[name]) for name in ("ps", "worker")] == [1, 1] and cluster["ps"] != cluster["worker"]
        role.may_end.set()
    ((job, task, given),) = role.calls
    assert (list(job.ps_hosts), list(job.worker_hosts)) == (cluster["ps"], cluster["worker"])
    assert task == Task("ps", 0) and given is console
    assert reset == [f"grpc://{host}" for host in (*cluster["ps"], *cluster["worker"])]


def test_the_addresses_can_be_served_on(monkeypatch: pytest.MonkeyPatch) -> None:
    role = Ps()
    role.may_end.set()
    monkeypatch.setattr(module, "ps", role)
    own = LocalConfig(CONFIG)
    with local_ps(own, None):  # type: ignore[arg-type]
        release_held_port(int(own.cluster_spec.task_address("worker", 0).rpartition(":")[2]))
        assert v1.train.Server(own.cluster_spec, "worker", 0).target


def test_an_error_of_the_worker_is_raised_and_that_of_the_ps_is_not(
    monkeypatch: pytest.MonkeyPatch, reset: list[str]
) -> None:
    role = Ps(JobFailedError("the job has failed"))
    role.may_end.set()
    monkeypatch.setattr(module, "ps", role)
    with pytest.raises(tf.errors.AbortedError), local_ps(LocalConfig(CONFIG), None):  # type: ignore[arg-type]
        raise tf.errors.AbortedError(None, None, "the worker's own")
    assert len(reset) == 2


def test_a_ps_that_does_not_end_does_not_keep_the_program(monkeypatch: pytest.MonkeyPatch, reset: list[str]) -> None:
    role = Ps()
    monkeypatch.setattr(module, "ps", role)
    monkeypatch.setattr(module, "_END_SECS", 0.05)
    start = time.monotonic()
    with local_ps(LocalConfig(CONFIG), None):  # type: ignore[arg-type]
        pass
    assert reset and time.monotonic() - start < 20
    role.may_end.set()
