"""An open vocabulary outlives the job: in checkpoints, for any number of ps, and in SavedModels."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.pipeline import DataSource, derived_seed
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues
from ps_train.modeling.tables.id_initializer import initial_rows_of_ids
from ps_train.modeling.tables.table import Table
from ps_train.saved.export.export import export, prepare_export
from ps_train.training.tasks.evaluator import score
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.loops import training
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.vocabularies import DIMENSION, Visits, book
from tests.support.saved.serving import served

DECLARED = {"capacity": 1000, "admit_after": 2, "expire_steps": 6}


def visits(strings: bool = False) -> Visits:
    random = np.random.default_rng(4)
    names = random.integers(-(2**62), 2**62, 900)
    ids = names[random.zipf(1.3, (1200, 2)) % 900]
    return Visits(
        np.vectorize(lambda name: f"{name % 10**9:x}".encode(), otypes=[object])(ids) if strings else ids, **DECLARED
    )


def made(model: Visits, num_ps: int, directory: pathlib.Path) -> InProcessCluster:
    settings = {"learning_rate": 0.05, "batch_size": 60, "optimizer": "adagrad"}
    return InProcessCluster(model, num_ps, 1, directory, **settings)


def saved(model: Visits, directory: pathlib.Path, steps: int = 9) -> tuple[InProcessCluster, str]:
    cluster = made(model, 2, directory)
    cluster.start()
    cluster.train(steps)
    assert cluster.checkpoints is not None
    return cluster, cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0]))


def predictions(model: Visits, checkpoint: str, ids: np.ndarray) -> np.ndarray:
    """By a plain graph."""
    with tf.Graph().as_default(), v1.Session() as session:
        outputs = model.forward(tf.constant(ids), training=False)
        CheckpointValues(checkpoint).restore(session, v1.global_variables())
        return session.run(outputs)


def expected(model: Visits, values: dict[str, np.ndarray], ids: np.ndarray) -> np.ndarray:
    """By a dictionary of what the ps have."""
    rows = book(values)
    alive = {n: r for n, r in rows.items() if values["users/clock"][0] - values["users/used"][r, 1] < 6}
    assert 40 < len(alive) < len(rows), "some ids must have expired"
    default = values["users/default"][0]
    found = [[values["users"][alive[n]] if n in alive else default for n in bag] for bag in ids.tolist()]
    return np.sum(found, axis=1) @ np.array([1.0, -0.5, 0.25])


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 3])
def test_a_checkpoint_of_two_ps_restores_into_another_number_and_training_goes_on(tmp_path, num_ps: int) -> None:
    model = visits()
    first, _ = saved(model, tmp_path)
    second = made(model, num_ps, tmp_path)
    assert second.start(restore=True) == 9
    before, after = first.values(), second.values()
    assert {
        f"users{part}" for part in ("", "/keys", "/used", "/clock", "/candidates/keys", "/Adagrad")
    } <= before.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert second.score()["mean"] == pytest.approx(expected(model, before, model.ids).mean(), abs=1e-6)
    first.start(restore=True)
    for cluster in (first, second):
        cluster.train(6)
    before, after = first.values(), second.values()
    rows, others = book(before), book(after)
    assert rows.keys() == others.keys() and len(rows) > 40
    for name in rows:
        for part in ("users", "users/used", "users/Adagrad"):
            np.testing.assert_allclose(after[part][others[name]], before[part][rows[name]], rtol=1e-5, err_msg=part)


@pytest.mark.long
def test_what_was_learned_after_the_checkpoint_is_unknown_when_it_is_restored(tmp_path) -> None:
    """On the same ps, which still have the index of what came later."""
    model = visits()
    cluster, _ = saved(model, tmp_path)
    before, score_before = cluster.values(), cluster.score()
    cluster.train(3)
    assert book(cluster.values()).keys() != book(before).keys()
    cluster.start(restore=True)
    assert cluster.score() == score_before
    cluster.start()
    assert cluster.score()["mean"] == pytest.approx(2 * 0.25 * 0.75, abs=1e-6), (
        "of default rows that have learned nothing"
    )


@pytest.mark.long
@pytest.mark.parametrize(("admit_after", "max_snapshot_mib"), [long(1, 256), (2, 256), long(2, 0)])
def test_a_checkpoint_that_is_taken_while_rows_change_hands_gives_no_id_the_row_of_another(
    tmp_path, monkeypatch, admit_after: int, max_snapshot_mib: int
) -> None:
    # A few rows: much could happen between two chunks.
    monkeypatch.setattr("ps_train.engine.checkpoint.files.CHUNK_BYTES", 200)
    ids = np.random.default_rng(3).geometric(0.02, (4000, 2))
    model = Visits(ids, capacity=40, admit_after=admit_after, initializer=None)
    settings = {"learning_rate": 1e-30, "batch_size": 12, "optimizer": "sgd"}  # every id keeps its first value
    cluster = InProcessCluster(
        model, 2, 2, tmp_path, max_snapshot_mib=max_snapshot_mib, max_steps=1_000_000, **settings
    )
    cluster.start()
    cluster.train(20)
    assert cluster.snapshots is not None
    before = book(cluster.values()).keys()
    with training(cluster):
        eventually(lambda: len(before - book(cluster.values()).keys()) > 5, 20, "rows that change hands")
        step = cluster.snapshots.save(cluster.sessions[0])
    cluster.start(restore=True)
    found = cluster.values()
    assert found["global_step"] == step and len(book(found)) == 40
    names = np.array(list(book(found)))
    table = Table("users", DIMENSION, capacity=40)
    with tf.Graph().as_default(), v1.Session() as session:
        first = session.run(
            initial_rows_of_ids(tf.constant(names[:, None]), table, derived_seed(cluster.job.seed, "users"))
        )
    np.testing.assert_allclose(found["users"][list(book(found).values())], first, atol=1e-7)


@pytest.mark.parametrize("strings", [long(False), long(True)])
def test_known_ids_are_predicted_by_their_rows_and_unknown_ones_by_the_default_row(tmp_path, strings: bool) -> None:
    model = visits(strings)
    cluster, path = saved(model, tmp_path)
    values = cluster.values()
    unknown = [[b"never seen", b"neither"]] if strings else [[12345, -(2**63)]]
    ids = np.concatenate([model.ids[:200], np.array(unknown, model.ids.dtype)])
    wanted = expected(model, values, ids)
    np.testing.assert_allclose(predictions(model, path, ids), wanted, atol=1e-6)
    assert wanted[-1] == pytest.approx(2 * values["users/default"][0] @ [1.0, -0.5, 0.25])
    whole = expected(model, values, model.ids).mean()
    assert cluster.score()["mean"] == pytest.approx(whole, abs=1e-6)
    assert score(model, DataSource(lambda: model.data("test", "")), path)["mean"] == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("strings", [long(False), True])
@pytest.mark.long
def test_a_saved_model_knows_the_ids(tmp_path, strings: bool) -> None:
    model = visits(strings)
    (tmp_path / "model").mkdir()
    cluster, path = saved(model, tmp_path / "model")
    export(model, DataSource(lambda: model.data("train", "")), path, prepare_export(str(tmp_path / "export")))
    unknown = [[b"never seen", b"neither"]] if strings else [[12345, -(2**63)]]
    ids = np.concatenate([model.ids[:50], np.array(unknown, model.ids.dtype)])
    wanted = expected(model, cluster.values(), ids)
    found = served(tmp_path, {"features": ids.astype("S") if strings else ids})
    np.testing.assert_allclose(found["raw_outputs"], wanted, atol=1e-6)
    np.testing.assert_allclose(found["parsed_outputs"], wanted, atol=1e-6)


@pytest.mark.long
def test_two_saved_models_in_one_process_do_not_share_their_ids(tmp_path) -> None:
    model, wanted, loaded = visits(), [], []
    cluster = made(model, 2, tmp_path)
    cluster.start()
    assert cluster.checkpoints is not None
    for _ in range(2):
        cluster.train(8)
        wanted.append(expected(model, cluster.values(), model.ids[:50]))
        path = cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0]))
        directory = prepare_export(str(tmp_path / "export"))
        loaded.append(tf.saved_model.load(export(model, DataSource(lambda: model.data("train", "")), path, directory)))
    for one, value in zip(loaded, wanted, strict=True):
        found = one.signatures["serving_default"](features=tf.constant(model.ids[:50]))["outputs"]
        np.testing.assert_allclose(found.numpy(), value, atol=1e-6)
