"""Checkpoints of large tables, of which updates keep old rows: each is the state at one global step."""

from __future__ import annotations

import logging
import pathlib
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train import Arrays, embeddings
from ps_train.engine.checkpoint import async_saver, files
from ps_train.engine.checkpoint.files import checkpoints_in
from ps_train.engine.variables import old_rows
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.loops import training
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear
from tests.support.models.vocabularies import Visits

ROWS, DIMENSION = 500, 4


class Rows(Linear):
    """The gradient of each row is its number of uses."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids

    def data(self, split, data_dir):
        return Arrays(self.ids, np.zeros(len(self.ids), np.float32))

    def forward(self, features, training):
        return embeddings.lookup("ads", features, "sum", dimension=DIMENSION, rows=ROWS, initializer=0.0)

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.reduce_sum(outputs, 1))


class Every(Rows):
    """Every step uses every row, some of them twice."""

    def __init__(self) -> None:
        super().__init__(np.concatenate([np.arange(ROWS), np.arange(0, ROWS, 7)])[np.newaxis].repeat(4, 0))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_rows, "COPIED_BYTES", 1000)
    monkeypatch.setattr(files, "CHUNK_BYTES", 700)


def made(model: Any, directory: pathlib.Path, workers: int = 2, **fields: Any) -> InProcessCluster:
    settings = {"batch_size": 1, "max_steps": 1_000_000, "learning_rate": 1.0, "keep_checkpoints": 100}
    cluster = InProcessCluster(model, 2, workers, directory, **{**settings, **fields})
    cluster.start()
    return cluster


AHEAD = {"steps_per_run": "4", "prefetch_pulls": 1}

MODES = [
    pytest.param("async", {}, id="async", marks=pytest.mark.long),
    pytest.param("async", AHEAD, id="async, pulling ahead", marks=pytest.mark.long),
    pytest.param("async", {"steps_per_run": "8"}, id="async in runs", marks=pytest.mark.long),
    pytest.param("bounded", {"max_steps_ahead": 2}, id="bounded", marks=pytest.mark.long),
    pytest.param("sync", {}, id="sync", marks=pytest.mark.long),
    pytest.param("sync", {"backup_workers": 1}, id="sync with a backup", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("update", "fields"), MODES)
@pytest.mark.parametrize("writers", ["auto", long("chief")])
def test_every_checkpoint_of_a_large_table_is_the_state_at_one_global_step(
    tmp_path: pathlib.Path, update: str, fields: dict, writers: str
) -> None:
    cluster = made(Every(), tmp_path, 3, update=update, optimizer="momentum", checkpoint_writers=writers, **fields)
    step = cluster.steps[0]
    assert [len(one.variables) for one in step.ps.old_rows] == [2, 2], "on each ps a slice and its momentum"
    with training(cluster):
        eventually(lambda: cluster.global_step() > 0, 30, "an update")
        for _ in range(3):
            saved = cluster.snapshots.save(cluster.sessions[0])
            eventually(lambda saved=saved: cluster.global_step() > saved, 30, "an update after the save")
    found = checkpoints_in(str(tmp_path))
    assert len(found) == 3
    for number, path in found:
        momentum, value = 0.0, 0.0
        for _ in range(number):
            momentum = 0.9 * momentum + 1
            value -= momentum
        reader = tf.train.load_checkpoint(path)
        assert reader.get_tensor("global_step") == number
        uses = np.round(reader.get_tensor("ads") / value)  # rows are not in the order of ids
        assert uses.sum(0).tolist() == [ROWS + len(range(0, ROWS, 7))] * DIMENSION and {*uses.flat} == {1, 2}
        np.testing.assert_allclose(reader.get_tensor("ads"), value * uses, rtol=1e-4)
        np.testing.assert_allclose(reader.get_tensor("ads/Momentum"), momentum * uses, rtol=1e-4)


def test_rows_before_and_after_the_place_of_the_writer_are_saved_as_they_were(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two parts of the file random rows are updated."""
    ids = np.random.default_rng(3).integers(0, ROWS, [200, 6])
    cluster = made(Rows(ids), tmp_path, 1, optimizer="adagrad")
    cluster.train(20)
    before = cluster.values()
    saving, train = cluster.saving, cluster.steps[0].ops.train
    run, train_in, made_steps = saving.run, cluster.sessions[0].run, []

    def run_and_train(fetches: Any, *args: Any, **fields: Any) -> Any:
        found = run(fetches, *args, **fields)
        if getattr(fetches, "type", "") == "SaveV2":
            made_steps.append(train_in([train, cluster.steps[0].ops.step_after])[1])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(saving, "run", run_and_train)
        assert cluster.snapshots.save(cluster.sessions[0]) == 20
    assert len(made_steps) > 20
    after = cluster.values()
    reader = tf.train.load_checkpoint(cluster.checkpoints.path(20))
    for name in ("ads", "ads/Adagrad", "global_step"):
        assert np.array_equal(reader.get_tensor(name), before[name]), name
    assert (after["ads"] != before["ads"]).all(1).sum() > 100
    left = of_saves(cluster.snapshots.graph)
    assert len(left) > 8 and not any(cluster.exist(left)), "no memory is kept after the save"
    cluster.start(restore=True)
    assert np.array_equal(cluster.values()["ads"], before["ads"])


def of_saves(graph: tf.Graph) -> list[tf.Operation]:
    """The handles of what a save makes on the ps."""
    found = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
    names = [op.get_attr("shared_name").decode() for op in found]
    return [op for op, name in zip(found, names, strict=True) if name.startswith(("ps_train/old", "ps_train/cut"))]


@pytest.mark.long
def test_pushes_are_held_for_a_moment_and_updates_go_on_between_any_two_parts_of_a_table(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = made(Every(), tmp_path, 2, update="async")
    session, saving = cluster.sessions[0], cluster.saving
    run, parts = saving.run, []

    def run_slowly(fetches: Any, *args: Any, **fields: Any) -> Any:
        found = run(fetches, *args, **fields)
        if getattr(fetches, "type", "") == "SaveV2":
            before = cluster.global_step()
            eventually(lambda: cluster.global_step() > before, 30, "an update during the write")
            time.sleep(0.05)
            parts.append(before)
        return found

    with training(cluster), monkeypatch.context() as patched:
        cluster.snapshots.warm_up(session)
        patched.setattr(saving, "run", run_slowly)
        cluster.snapshots.save(session)
    report = cluster.snapshots.report()
    assert len(parts) > 10
    assert report["hold_secs_max"] < report["write_secs_mean"] / 3


@pytest.mark.long
def test_a_write_makes_way_for_training_until_its_end_is_awaited(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_saver, "_PAUSE", 1e6)
    cluster = made(Every(), tmp_path, 1)
    saver, saving = cluster.snapshots, cluster.saving
    run, parts = saving.run, []

    def noted(fetches: Any, *args: Any, **fields: Any) -> Any:
        found = run(fetches, *args, **fields)
        if getattr(fetches, "type", "") == "SaveV2":
            parts.append(fetches)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(saving, "run", noted)
        saver.start(cluster.sessions[0])
        eventually(lambda: len(parts) == 2, 30, "the first part of each ps")
        assert saver.busy
        saver.hurry()
        eventually(lambda: not saver.busy, 30, "the end of the write")
    assert saver.poll() == 0 and len(parts) > 10


@pytest.mark.long
@pytest.mark.parametrize("admit_after", [1, 2])
@pytest.mark.parametrize("optimizer", ["adagrad", long("sgd"), long("ftrl")])
def test_an_open_vocabulary_is_saved_as_it_was_while_ids_are_admitted_and_evicted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, admit_after: int, optimizer: str
) -> None:
    ids = np.random.default_rng(3).geometric(0.01, (4000, 2))
    model = Visits(ids, capacity=120, admit_after=admit_after, expire_steps=40, initializer=None)
    cluster = made(model, tmp_path, 1, optimizer=optimizer, batch_size=12, learning_rate=0.05)
    slots = {"sgd": 0, "adagrad": 1, "ftrl": 2}[optimizer]
    sizes = sorted(len(one.variables) for one in cluster.steps[0].ps.old_rows)
    expected = sorted([3, *([2] if admit_after > 1 else []), *([slots] if slots else [])])
    assert sizes == sorted(expected * (len(sizes) // len(expected))), "rows, keys and uses; candidates; slots"
    cluster.train(60)
    before = cluster.values()
    saving, train = cluster.saving, cluster.steps[0].ops.train
    run, train_in = saving.run, cluster.sessions[0].run

    def run_and_train(fetches: Any, *args: Any, **fields: Any) -> Any:
        found = run(fetches, *args, **fields)
        if getattr(fetches, "type", "") == "SaveV2":
            train_in(train)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(saving, "run", run_and_train)
        cluster.snapshots.save(cluster.sessions[0])
    after = cluster.values()
    assert (after["users/keys"] != before["users/keys"]).any(1).sum() > 5, "rows changed hands"
    reader = tf.train.load_checkpoint(cluster.checkpoints.path(60))
    for name, value in before.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("limit", [0, 1])
def test_updates_wait_where_old_rows_take_more_memory_than_they_may_and_a_line_says_so(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    caplog.set_level(logging.WARNING)
    cluster = made(Every(), tmp_path, 2, max_snapshot_mib=limit, update="async")
    with training(cluster):
        steps = [cluster.snapshots.save(cluster.sessions[0]) for _ in range(3)]
    said = "keeps 0 MiB of old rows for a checkpoint, more than max_snapshot_mib=0: updates wait" in caplog.text
    assert said == (limit == 0)
    for number in steps:
        reader = tf.train.load_checkpoint(cluster.checkpoints.path(number))
        assert {*reader.get_tensor("ads").flat} == {-number, -2 * number}


@pytest.mark.long
def test_a_snapshot_that_a_dead_chief_has_left_does_not_mix_with_the_next_one(tmp_path: pathlib.Path) -> None:
    cluster = made(Every(), tmp_path, 1)
    snapshot = cluster.snapshots._snapshot
    cluster.train(2)
    cluster.saving.run(snapshot.prepare)
    cluster.saving.run(snapshot.cut)
    cluster.train(2)
    assert cluster.saving.run(snapshot.kept_bytes).sum() == ROWS * DIMENSION * 4
    assert cluster.snapshots.save(cluster.sessions[0]) == 4
    assert {*tf.train.load_checkpoint(cluster.checkpoints.path(4)).get_tensor("ads").flat} == {-4, -8}
    cluster.train(1)
    assert cluster.snapshots.save(cluster.sessions[0]) == 5
    assert tf.train.load_checkpoint(cluster.checkpoints.path(5)).get_tensor("ads").min() == -10


@pytest.mark.long
def test_a_small_table_is_copied_and_a_large_one_is_not(tmp_path: pathlib.Path, monkeypatch) -> None:
    monkeypatch.setattr(old_rows, "COPIED_BYTES", ROWS * DIMENSION * 4)
    cluster = made(Every(), tmp_path, 1)
    assert not cluster.steps[0].ps.old_rows
    assert not [
        op for op in cluster.steps[0].graph.get_operations() if op.type == "VarIsInitializedOp" and "old" in op.name
    ]
    cluster.train(1)
    assert cluster.snapshots.save(cluster.sessions[0]) == 1
    assert tf.train.load_checkpoint(cluster.checkpoints.path(1)).get_tensor("ads").min() == -2
