"""A batch size that changes while the job runs: numbers are those of one process on the same batches."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.following import FollowingBatchSize
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, in_parallel, train_plainly
from tests.support.data.recording import Recording, SharingWorker, used
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.tables import Bags, PlainBags

RATE, LOWER = 0.02, 4
SCHEDULE = [4, 4, 16, 8, 8, 16, 4]
"""Sizes of the batches of each step."""


class Sized:
    """A cluster whose batch size a test sets."""

    def __init__(self, model: Any, num_ps: int, num_workers: int, directory: Any = None, **fields: Any) -> None:
        fields = {"batch_size": "4..16", "partition_bytes": 8, "learning_rate": RATE, **fields}
        self.cluster = InProcessCluster(model, num_ps, num_workers, directory, **fields)
        step = self.cluster.steps[0]
        (part,) = step.parts.of(FollowingBatchSize)
        with step.graph.as_default():
            self._wanted, self._change = part.adapted.change(step.ps.global_step)
            self._newest = part.adapted.newest()

    def start(self, **how: Any) -> None:
        self.cluster.start(**how)
        if not how:
            self.cluster.sessions[0].run(self._change, {self._wanted: SCHEDULE[1]})

    def change(self, size: int) -> None:
        """The size of the steps after the next one."""
        self.cluster.sessions[0].run(self._change, {self._wanted: size})

    def newest(self) -> int:
        return int(self.cluster.sessions[0].run(self._newest))

    def train(self, sizes: Sequence[int] = SCHEDULE) -> None:
        for after in (*sizes[1:], sizes[-1]):
            self.change(after)
            self.cluster.train(1)


def rows_of(sizes: Sequence[int], count: int, num_workers: int, each: int = 1) -> list[np.ndarray]:
    """The rows of each step: worker i reads rows i, i + num_workers, ... in order."""
    place, found = 0, []
    for size in sizes:
        local = np.arange(place, place + size * each)
        rows = [np.arange(index, count, num_workers) for index in range(num_workers)]
        found.append(np.concatenate([np.take(own, local, mode="wrap") for own in rows]))
        place += size * each
    return found


def plain_values(model: Linear, initial: dict, rows: list[np.ndarray], optimizer: Any) -> dict[str, np.ndarray]:
    data = model.data("train", "")
    return train_plainly(model, optimizer, initial, [(data.features[some], data.labels[some]) for some in rows])


def assert_equal(found: dict[str, np.ndarray], plain: dict[str, np.ndarray]) -> None:
    for name in ("w", "b"):
        np.testing.assert_allclose(found[name], plain[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("num_ps", "fields"),
    [(2, {}), long(1, {"accumulate": 2}), long(1, {"towers": "2"}), long(2, {"optimizer": "adam"})],
)
def test_synchronous_workers_have_the_same_size_in_a_step_and_equal_one_process(num_ps: int, fields: dict) -> None:
    model, optimizer = Linear(count=400, width=5), fields.get("optimizer", "sgd")
    sized = Sized(model, num_ps, 2, update="sync", **{"optimizer": optimizer, **fields})
    sized.start()
    initial = sized.cluster.values()
    sized.train()
    each = fields.get("accumulate", 1)
    rows = rows_of(SCHEDULE, 400, 2, each)
    assert_equal(sized.cluster.values(), plain_values(model, initial, rows, lambda: make_optimizer(optimizer, RATE)))
    assert sized.cluster.values()["ps_train/examples"] == sum(map(len, rows))
    assert sized.cluster.global_step() == len(SCHEDULE), "a step counts one update, whatever its size"


@pytest.mark.long
@pytest.mark.parametrize(("num_ps", "optimizer"), [(2, "sgd"), long(1, "adagrad")])
def test_tables_get_the_rows_of_batches_of_any_size(num_ps: int, optimizer: str) -> None:
    model = Bags(count=400, dense=True)
    sized = Sized(model, num_ps, 2, update="sync", partition_bytes=1 << 20, optimizer=optimizer)
    sized.start()
    initial, data = sized.cluster.values(), model.data("train", "")
    sized.train()
    batches = [(data.features[rows], data.labels[rows]) for rows in rows_of(SCHEDULE, 400, 2)]
    plain = train_plainly(PlainBags(400, dense=True), lambda: make_optimizer(optimizer, RATE), initial, batches)
    found = sized.cluster.values()
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("scaling", ["linear", long("sqrt")])
@pytest.mark.parametrize(("update", "num_workers"), [long("async", 1), ("sync", 2)])
def test_the_learning_rate_follows_the_examples_of_an_update(scaling: str, update: str, num_workers: int) -> None:
    model = Linear(count=400)
    sized = Sized(model, 2, num_workers, update=update, optimizer="sgd", scale_learning_rate=scaling)
    sized.start()
    values = sized.cluster.values()
    data = model.data("train", "")
    sized.train()
    # Reading ahead makes some batches of an asynchronous worker with an older size; the examples of the sum say less.
    if update == "async":
        return
    for rows in rows_of(SCHEDULE, 400, num_workers):
        ratio = len(rows) / (LOWER * num_workers)
        rate = RATE * (ratio if scaling == "linear" else ratio**0.5)
        batch = [(data.features[rows], data.labels[rows])]
        values = train_plainly(model, lambda rate=rate: make_optimizer("sgd", rate), values, batch)
    assert_equal(sized.cluster.values(), values)


@pytest.mark.parametrize(
    "fields",
    [
        long({"update": "sync", "steps_per_run": "4"}),
        long({"steps_per_run": "4", "prefetch_pulls": 1}),
        {"update": "bounded"},
        long({"update": "sync", "sharding": "dynamic"}),
        long({"sharding": "dynamic", "steps_per_run": "4"}),
    ],
    ids=["sync", "prefetching", "bounded", "dynamic sync", "dynamic"],
)
def test_each_example_of_an_epoch_is_used_exactly_once_while_sizes_change(fields: dict) -> None:
    is_dynamic = fields.get("sharding") == "dynamic"
    model = Recording(ones=fields.get("update") == "sync")
    more = {"epochs": 1, "max_steps": 100_000, "learning_rate": 1.0, "shuffle_buffer": 100, "partition_bytes": 1 << 10}
    sized = Sized(model, 2, 2, **more, **fields)
    sized.start()
    is_over: list[bool] = []

    def swing() -> None:
        while len(is_over) < 2:
            for size in (16, 4, 8):
                sized.change(size)

    def work(index: int) -> None:
        try:
            if is_dynamic:
                SharingWorker(sized.cluster, index).run()
            else:
                _train_to_the_end(sized.cluster, index)
        finally:
            is_over.append(True)

    in_parallel([lambda: work(0), lambda: work(1), swing], within_secs=100)
    for counts in used(sized.cluster):
        np.testing.assert_array_equal(counts, np.ones(len(counts)))
    assert sized.cluster.values()["ps_train/examples"] == 1000


def _train_to_the_end(cluster: InProcessCluster, index: int) -> None:
    """Makes steps until the worker's input has ended."""
    step, session = cluster.steps[index], cluster.sessions[index]
    fetches = step.steps_per_call(cluster.job.longest_call)
    assert fetches["examples"], "batches differ, so each step says how many examples it had"
    with contextlib.suppress(tf.errors.OutOfRangeError):  # of a call of one step, as in TrainingLoop
        while min(session.run(fetches)["examples"]) > 0:
            pass
    if not step.lockstep:
        cluster.dismiss(index, by=index)


@pytest.mark.long
def test_a_checkpoint_keeps_the_size_and_a_job_with_other_bounds_takes_the_nearest_one_below(tmp_path: Any) -> None:
    model = Linear(count=400)
    sized = Sized(model, 1, 1, tmp_path, batch_size="4..64")
    sized.start()
    sized.train([4, 64, 64])
    assert sized.cluster.snapshots is not None
    sized.cluster.snapshots.save(sized.cluster.sessions[0])
    for bounds, size in (("4..64", 64), ("4..16", 16), ("128..512", 128), ("48..96", 48)):
        again = Sized(model, 1, 1, tmp_path, batch_size=bounds)
        again.start(restore=True)
        assert again.newest() == size
        before = again.cluster.values()["ps_train/examples"]
        again.cluster.train(3)
        assert again.cluster.values()["ps_train/examples"] - before <= 3 * size


def test_a_checkpoint_of_a_fixed_size_restores_to_the_lower_bound_and_the_reverse(tmp_path: Any) -> None:
    fields = {"batch_size": 8, "partition_bytes": 8, "learning_rate": RATE}
    fixed = InProcessCluster(Linear(count=400), 1, 1, tmp_path, **fields)
    fixed.start()
    fixed.train(3)
    assert fixed.snapshots is not None
    fixed.snapshots.save(fixed.sessions[0])
    sized = Sized(Linear(count=400), 1, 1, tmp_path, batch_size="16..64")
    sized.start(restore=True)
    assert sized.newest() == 16


def test_the_graph_of_a_fixed_size_has_nothing_of_it() -> None:
    for size in (8, "8..8"):
        cluster = InProcessCluster(Linear(), 1, 1, batch_size=size)
        names = [op.name for op in cluster.steps[0].graph.get_operations()]
        assert not [name for name in names if "ps_train/batch_size" in name]
        assert all(isinstance(op, v1.Operation) for op in cluster.steps[0].ops.train)
