"""Variables of every dtype are trained, saved, restored, scored and served, or refused in one line."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.data.pipeline import DataSource
from ps_train.training.tasks import evaluator
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.of_users import STEPS, UserModel, check_export, check_scores, check_training

TRAINED = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
KEPT = {
    "complex64": [1 + 2j, 3],
    "complex128": [1 + 2j, 3],
    "int8": [1, -2],
    "int16": [1, -2],
    "int32": [1, -2],
    "int64": [1, -2],
    "uint8": [1, 2],
    "uint32": [1, 2],
    "bool": [True, False],
    "string": [b"a", b"bc"],
}
QUICK = ("string",)


def of(dtype):
    def forward(x):
        w = v1.get_variable("w", [4, 1], dtype)
        b = tf.Variable(tf.zeros([1], dtype), name="b")
        wide = tf.matmul(tf.cast(x, dtype), tf.convert_to_tensor(w)) + b
        return tf.cast(wide, tf.float32) + v1.get_variable("c", [1])

    return UserModel(forward)


@pytest.mark.parametrize("dtype", [*TRAINED[:2], *map(long, TRAINED[2:])], ids=lambda dtype: dtype.name)
@pytest.mark.usual(1)
def test_it_is_trained_saved_scored_and_served(dtype, tmp_path: pathlib.Path) -> None:
    model = of(dtype)
    cluster = check_training(model, tmp_path)
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)
    again = InProcessCluster(model, 1, 1, tmp_path / "model", batch_size=4)
    assert again.start(restore=True) == STEPS
    for name, value in cluster.values().items():
        if not name.startswith("ps_train/"):
            np.testing.assert_array_equal(again.values()[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "trainable"),
    [
        *((dtype, False) if dtype in QUICK else long(dtype, False) for dtype in KEPT),
        ("int32", True),
        long("string", True),
    ],
)
def test_what_has_no_gradient_keeps_its_value(dtype: str, trainable: bool, tmp_path: pathlib.Path) -> None:
    value = tf.constant(KEPT[dtype], dtype)

    def forward(x):
        n = v1.get_variable("n", dtype=dtype, initializer=lambda: tf.constant(KEPT[dtype], dtype), trainable=trainable)
        m = tf.Variable(tf.constant(KEPT[dtype], dtype), trainable=trainable, name="m")
        empty = v1.get_variable("empty", [2], dtype, trainable=trainable) if not n.dtype.is_complex else n
        if n.dtype == tf.string:
            number = tf.cast(tf.strings.length(tf.strings.join([n[0], m[1], empty[0]])), tf.float32)
        else:
            number = tf.cast(tf.math.real(tf.cast(n, tf.complex64)[0]), tf.float32)
        return x @ v1.get_variable("w", [4, 1]) + number

    model = UserModel(forward)
    cluster = check_training(model, tmp_path)
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)
    assert list(cluster.values()["n"]) == list(cluster.values()["m"]) == KEPT[dtype] and value.shape == (2,)
    again = InProcessCluster(model, 1, 1, tmp_path / "model", batch_size=4)
    assert again.start(restore=True) == STEPS
    assert list(again.values()["n"]) == KEPT[dtype]
    assert cluster.snapshots is not None
    cluster.snapshots.save(cluster.sessions[0])


def mixed(x):
    outputs = v1.get_variable("c", [1])
    for dtype in TRAINED:
        w = v1.get_variable(dtype.name, [4, 1], dtype)
        outputs += 100 * tf.cast(tf.matmul(tf.cast(x, dtype), w), tf.float32)
    return outputs


@pytest.mark.parametrize("clip", ["clip_global_norm", "clip_norm", "clip_value"])
@pytest.mark.usual(1)
def test_gradients_of_several_dtypes_are_clipped_together(clip: str, tmp_path: pathlib.Path) -> None:
    model = UserModel(mixed)
    (tmp_path / "model").mkdir()
    limit = 0.5
    fields = {"batch_size": 4, "optimizer": "sgd", "learning_rate": 1.0, clip: limit}
    cluster = InProcessCluster(model, 2, 1, **fields)
    cluster.start()
    before = cluster.values()
    cluster.train(1)
    after = cluster.values()
    names = ["c", *(dtype.name for dtype in TRAINED)]
    steps = [after[name].astype(np.float64) - before[name].astype(np.float64) for name in names]
    norms = [np.linalg.norm(one) for one in steps]
    if clip == "clip_global_norm":
        assert np.linalg.norm(norms) == pytest.approx(limit, rel=0.02)
        assert min(norms[1:]) > 0.1
    elif clip == "clip_norm":
        assert norms == pytest.approx([limit] * 5, rel=0.02)
    else:
        assert max(np.abs(one).max() for one in steps) == pytest.approx(limit, rel=0.02)


def test_another_dtype_than_the_checkpoints_is_refused_with_both(tmp_path: pathlib.Path) -> None:
    check_training(of(tf.float32), tmp_path)
    other = InProcessCluster(of(tf.float64), 2, 1, tmp_path / "model", batch_size=4)
    with pytest.raises(ModelError, match=r"has [wb] of dtype float32, the model of float64: it is of another model"):
        other.start(restore=True)
    model, path = of(tf.float64), other.checkpoints.path(STEPS)
    with pytest.raises(ModelError, match="of dtype float32, the model of float64"):
        evaluator.score(model, DataSource(lambda: model.data("test", "")), path)
