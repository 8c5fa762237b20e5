"""The chief measures the ps, all tasks place variables by the same weights, and a plan is never mixed with another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import RefusedError
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.config.job import Job, Task
from ps_train.engine.variables.plan import Plan
from ps_train.training.joining import measured_weights
from ps_train.training.joining.measured_weights import MeasuredWeights, confirm_weights
from ps_train.training.joining.prepare import Prepared, prepare
from tests.support.clusters.servers import POOL, Running
from tests.support.models.small import Linear

SPEEDS = [90e6, 30e6]


class Wide(Linear):
    """One with a variable that is cut."""

    def forward(self, features: Any, training: bool) -> Any:
        return super().forward(features, training) + 0 * tf.reduce_sum(v1.get_variable("wide", [1000, 1000]))


class PlacedTask:
    def __init__(self, prepared: Prepared, weights: MeasuredWeights) -> None:
        self.prepared, self.weights = prepared, weights
        self.plan: Plan = prepared.plan(weights.weights)

    def confirm(self, store: KeyValueStore) -> None:
        confirm_weights(self.prepared, self.weights, store)


class Measured:
    """A job of two ps, whose speed a test gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
        self.servers: list[Running] = POOL.take(2)
        self.speeds: list[Callable[[], float]] = [lambda speed=speed: speed for speed in SPEEDS]  # type: ignore[misc]
        hosts = tuple(server.host for server in self.servers)
        self.job = Job(ps_hosts=hosts, worker_hosts=("a:1", "b:1"), ps_weights="auto", **fields)
        self.stores: dict[int, KeyValueStore] = {}
        for index in range(2):
            self.restart(index)
        by_target = {server.target: index for index, server in enumerate(self.servers)}
        monkeypatch.setattr(measured_weights, "is_local", lambda host: False)
        monkeypatch.setattr(measured_weights, "bytes_per_sec", lambda target: self.speeds[by_target[target]]())

    def restart(self, index: int) -> None:
        """Lets a ps come back empty."""
        server = self.servers[index]
        v1.Session.reset(server.target)
        self.stores[index] = store = KeyValueStore(server.target, server.host)
        store.set(records.IDENTITY, records.new_identity(f"ps:{index}", self.job.shared_fields()).to_json())

    def task(self, index: int) -> PlacedTask:
        """A task that has found the weights."""
        prepared = prepare(self.job, Task("worker", index), Wide())
        addresses = prepared.cluster.ps
        found = measured_weights.measured_weights(prepared, list(self.stores.values()), addresses)
        return PlacedTask(prepared, found)


def test_all_tasks_have_the_plan_of_the_weights_that_the_chief_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured(monkeypatch)
    chief = measured.task(0)
    assert chief.weights.text == "1,0.33"
    assert "ps:0 85.8 MiB/s, ps:1 28.6 MiB/s" in chief.weights.reason
    worker = measured.task(1)
    assert worker.plan == chief.plan
    first, second = chief.plan.bytes_per_ps()
    assert second < 0.5 * first
    # A chief that comes back finds the weights of the job, although the network is another one now.
    measured.speeds[1] = lambda: 90e6
    again = measured.task(0)
    assert again.plan == chief.plan and not again.weights.reason
    # ps 0 has come back empty: the chief writes them again.
    measured.restart(0)
    chief.confirm(measured.stores[0])
    worker.confirm(measured.stores[0])
    # All ps and the chief have come back: a worker that has not must not use its old plan.
    for index in range(2):
        measured.restart(index)
    new = measured.task(0)
    assert new.weights.text == "even"
    with pytest.raises(RefusedError, match=r"have the weights even now, but worker:1 has placed .* by 1,0\.33"):
        worker.confirm(measured.stores[0])


def test_ps_that_cannot_be_measured_are_even_and_a_record_of_another_form_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost() -> float:
        raise tf.errors.UnavailableError(None, None, "Connection reset by peer")

    measured = Measured(monkeypatch)
    measured.speeds[1] = lost
    chief = measured.task(0)
    assert chief.weights.reason == "ps_weights=even: ps:1 could not be measured: Connection reset by peer"
    for text in ("1,1,1", "x", "0,1", "nan,1", "1,-1"):
        for store in measured.stores.values():
            store.set(records.PS_WEIGHTS, text)
        with pytest.raises(RefusedError, match="instead of weights for 2 ps"):
            measured.task(1)
