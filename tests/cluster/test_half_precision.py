"""Variables of float16, bfloat16 and float64: sums of gradients, accumulation, and checkpoints."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.engine.checkpoint import files
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.dtypes import Averaging

DTYPES = ["float16", "bfloat16", "float64"]
BATCH, WORKERS = 512, 3


def shares(model: Averaging, workers: int) -> list[np.ndarray[Any, Any]]:
    """The features of each worker's own examples, float64, in the order in which it reads them."""
    features = model.data("train", "").features.astype(np.float64)
    return [features[index::workers] for index in range(workers)]


def spread(model: Averaging, found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """The largest difference, as a share of the expected value."""
    return float(np.abs(found.astype(np.float64) / expected - 1).max())


ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8, "float64": 1e-7}
"""The share of a value that rounding it once changes at most (of float64, that of the float32 examples)."""


@pytest.mark.parametrize("dtype", [one if one == "float16" else long(one) for one in DTYPES])
@pytest.mark.long
def test_a_synchronous_update_of_large_batches_is_the_mean_over_all_examples(dtype: str) -> None:
    """Sums of 512 gradients of 200 are beyond float16, and lose digits in bfloat16."""
    model = Averaging(dtype)
    cluster = InProcessCluster(model, 2, WORKERS, update="sync", batch_size=BATCH, partition_bytes=16)
    assert len(cluster.plan.slices_of("w")) > 1
    cluster.start()
    cluster.train(1)
    mine = [model.rounded(some[:BATCH].mean(axis=0)).astype(np.float64) for some in shares(model, WORKERS)]
    found = cluster.values()["w"]
    assert found.dtype == model.dtype.as_numpy_dtype
    # The mean of what was pushed is rounded once: nothing else may be lost.
    assert spread(model, found, np.mean(mine, axis=0)) <= ROUNDING[dtype] * 1.01
    assert cluster.values()["ps_train/examples"] == BATCH * WORKERS


@pytest.mark.parametrize("dtype", ["float16", long("bfloat16"), long("float64")])
def test_a_synchronous_update_weighs_batches_of_different_sizes_by_their_examples(dtype: str) -> None:
    model = Averaging(dtype, count=2 * BATCH + 130)
    cluster = InProcessCluster(model, 1, 2, update="sync", batch_size=BATCH, epochs=1)
    cluster.start()
    cluster.sessions[1].run(cluster.steps[1].worker.batches.labels)  # worker 1 is at its short batch already
    first, second = shares(model, 2)
    parts = [first[:BATCH], second[BATCH:]]
    assert len(parts[1]) == 65
    cluster.train(1)
    weights = [len(part) for part in parts]
    expected = np.average([model.rounded(part.mean(axis=0)).astype(np.float64) for part in parts], 0, weights)
    assert spread(model, cluster.values()["w"], expected) <= ROUNDING[dtype] * 1.01


@pytest.mark.long
@pytest.mark.parametrize("dtype", [long("float16"), "bfloat16"])
def test_a_skipped_push_weighs_nothing_in_any_dtype(dtype: str) -> None:
    model = Averaging(dtype, count=8)
    arrays = model.data("train", "")
    arrays.features[1] = np.nan  # worker 1's first example
    model.data = lambda split, data_dir: arrays  # type: ignore[method-assign]
    cluster = InProcessCluster(model, 2, 2, update="sync", batch_size=2, on_nan="skip", partition_bytes=16)
    cluster.start()
    cluster.train(1)
    expected = model.rounded(arrays.features[[0, 2]].astype(np.float64).mean(axis=0)).astype(np.float64)
    assert spread(model, cluster.values()["w"], expected) <= ROUNDING[dtype] * 1.01
    assert cluster.values()["ps_train/skipped"] == 1 and cluster.values()["ps_train/examples"] == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "update"),
    [("float16", "async"), ("bfloat16", "sync"), long("bfloat16", "async"), long("float64", "sync")],
)
def test_accumulated_batches_are_added_up_without_losing_digits(dtype: str, update: str) -> None:
    """24 terms: their sum in bfloat16 would be wrong by more than one rounding."""
    model, accumulate, size = Averaging(dtype), 24, 8
    cluster = InProcessCluster(model, 1, 1, update=update, batch_size=size, accumulate=accumulate)
    cluster.start()
    cluster.train(1)
    (mine,) = shares(model, 1)
    batches = mine[: accumulate * size].reshape(accumulate, size, *mine.shape[1:])
    expected = np.mean([model.rounded(batch.mean(axis=0)).astype(np.float64) for batch in batches], axis=0)
    assert spread(model, cluster.values()["w"], expected) <= ROUNDING[dtype] * 1.01


def test_a_norm_is_clipped_over_all_slices_of_a_variable() -> None:
    model = Averaging("float32", mean=3.0)
    cluster = InProcessCluster(model, 3, 1, batch_size=8, partition_bytes=16, clip_norm=2.0)
    assert len({piece.ps for piece in cluster.plan.slices_of("w")}) > 1
    cluster.start()
    cluster.train(1)
    (mine,) = shares(model, 1)
    gradient = mine[:8].mean(axis=0)
    assert spread(model, cluster.values()["w"], 2.0 * gradient / np.linalg.norm(gradient)) < 1e-5


ADAM = {"optimizer": "adam", "learning_rate": 0.125, "batch_size": 8, "partition_bytes": 16}


def trained(dtype: str, directory: pathlib.Path, num_ps: int) -> InProcessCluster:
    """A cluster whose checkpoint of step 3 is in the directory."""
    cluster = InProcessCluster(Averaging(dtype, mean=1.0), num_ps, 1, directory, **ADAM)
    cluster.start()
    cluster.train(3)
    assert cluster.snapshots is not None
    assert cluster.snapshots.save(cluster.sessions[0]) == 3
    return cluster


def assert_same(found: dict[str, np.ndarray[Any, Any]], expected: dict[str, np.ndarray[Any, Any]]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype and np.array_equal(found[name], value), name


def contents_of(path: str, like: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """What a plain graph restores, whole.  (`tf.train.load_checkpoint` gives no values of float16.)"""
    dtypes = [tf.as_dtype(value.dtype) for value in like.values()]
    found = tf.raw_ops.RestoreV2(prefix=path, tensor_names=list(like), shape_and_slices=[""] * len(like), dtypes=dtypes)
    return {name: value.numpy() for name, value in zip(like, found, strict=True)}


@pytest.fixture(params=["at once", "in chunks"])
def chunked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in chunks":
        monkeypatch.setattr(files, "CHUNK_BYTES", 20)


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("dtype", ["float16", long("bfloat16"), long("float64")])
@pytest.mark.long
def test_a_checkpoint_of_two_ps_restores_into_any_number_whatever_the_dtype(dtype: str, tmp_path: pathlib.Path) -> None:
    first = trained(dtype, tmp_path, 2)
    expected = first.values()
    assert first.plan.slices_of("w")[0].count > 1 and expected["w/Adam"].dtype == expected["w"].dtype
    assert np.all(expected["w"] != 0) and np.all(expected["w/Adam"] != 0)
    assert_same(contents_of(str(tmp_path / "model.ckpt-3"), expected), expected)
    for num_ps in (1, 2, 3):
        other = InProcessCluster(Averaging(dtype, mean=1.0), num_ps, 1, tmp_path, **ADAM)
        assert other.start(restore=True) == 3
        assert_same(other.values(), expected)


@pytest.mark.long
def test_the_slices_of_one_lost_ps_are_restored_alone(tmp_path: pathlib.Path) -> None:
    cluster = trained("float16", tmp_path, 2)
    before = cluster.values()
    cluster.train(1)
    assert cluster.checkpoints is not None
    cluster.checkpoints.restore(cluster.sessions[0], only=[1])
    after = cluster.values()
    for piece in cluster.plan.slices_of("w"):
        rows = slice(piece.begin, piece.begin + piece.shape[0])
        assert np.array_equal(after["w"][rows], before["w"][rows]) == (piece.ps == 1)


@pytest.mark.long
def test_a_checkpoint_of_another_dtype_is_an_error_that_names_it(tmp_path: pathlib.Path) -> None:
    trained("float32", tmp_path, 1)
    with pytest.raises(ModelError, match="has w of dtype float32, the model of float16: it is of another model"):
        InProcessCluster(Averaging("float16"), 1, 1, tmp_path, **ADAM).start(restore=True)
