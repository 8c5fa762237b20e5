"""Exports with rows in fewer bytes: their predictions, their loss of AUC, and the refusal above the limit."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings, metrics
from ps_train.base.errors import ConfigError, ModelError
from ps_train.config.job import Job
from ps_train.data.pipeline import DataSource
from ps_train.saved.export.coded_rows import coded
from ps_train.saved.export.export import prepare_export
from ps_train.saved.export.fingerprint import FILE
from ps_train.training.duties.export_model import check_auc, export_model
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long


class Clicks(Model):
    """A table by id, one of single numbers, and an open vocabulary."""

    default_learning_rate = 0.5

    def data(self, split: str, data_dir: str) -> Arrays:
        chance = np.random.default_rng(2)
        ids = chance.integers(0, 40, (400, 2))
        labels = (chance.random(400) < 1 / (1 + np.exp(-np.sin(ids).sum(1)))).astype(np.float32)
        return Arrays({"ad": ids[:, 0], "user": ids[:, 1]}, labels)

    def forward(self, features, training):
        ads = embeddings.lookup("wide/ads", features["ad"], rows=40, dimension=8)
        users = embeddings.lookup("users", features["user"], capacity=60, dimension=4)
        bias = embeddings.lookup("bias", features["ad"], rows=40, dimension=1)
        return tf.reduce_sum(ads * 3, 1) + tf.reduce_sum(users, 1) + bias[:, 0] + v1.get_variable("b", [])

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs, labels):
        return metrics.of_clicks(labels, outputs)


@pytest.mark.parametrize("rows", ["int8", long("bfloat16")])
def test_rows_in_fewer_bytes_are_read_in_the_graph_and_refused_if_they_lose_too_much(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, rows: str
) -> None:
    model = Clicks()
    cluster = InProcessCluster(model, 2, 1, tmp_path / "model", batch_size=50)
    (tmp_path / "model").mkdir()
    cluster.start()
    cluster.train(60)
    checkpoint = cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0]))
    source, folder = DataSource(lambda: model.data("train", "")), prepare_export(str(tmp_path / "export"))

    def exported(**fields) -> str:
        return export_model(Job(export_dir=folder, **fields), model, source, checkpoint, folder)

    features = {name: tf.constant(values) for name, values in model.data("test", "").features.items()}
    whole = tf.saved_model.load(exported()).signatures["serving_default"](**features)["outputs"].numpy()
    dtype, tolerance = {"int8": (np.int8, 1e-2), "bfloat16": (tf.bfloat16.as_numpy_dtype, 2e-2)}[rows]
    ads = tf.train.load_checkpoint(checkpoint).get_tensor("wide/ads")
    with caplog.at_level("INFO", "ps_train"):
        path = exported(export_rows=rows, export_max_auc_loss=0.05)
    assert f"export_rows={rows} loses " in caplog.text and " of auc on the test split (" in caplog.text
    found = tf.saved_model.load(path).signatures["serving_default"](**features)["outputs"].numpy()
    assert 0 < np.abs(found - whole).max() < tolerance * np.abs(whole).max()
    stored = tf.train.load_checkpoint(f"{path}/variables/variables")
    codes = stored.get_tensor("wide/ads/codes")
    assert codes.dtype == dtype and not stored.has_tensor("wide/ads")
    if rows == "int8":
        np.testing.assert_array_equal(codes, coded(ads)[0])
        np.testing.assert_array_equal(stored.get_tensor("wide/ads/scale"), coded(ads)[1])
        assert stored.has_tensor("bias"), "the scale would take more than it saves"
    facts = json.loads((pathlib.Path(path) / FILE).read_text())
    assert facts["rows"] == rows and facts["auc"] - facts["auc_of_rows"] == pytest.approx(facts["auc_loss"])
    assert 0.6 < facts["auc"] < 1

    if rows != "int8":
        return
    names = sorted(path.name for path in pathlib.Path(folder).iterdir())
    with pytest.raises(ConfigError, match=r"export_rows=int8 loses .* more than export_max_auc_loss=0.0: nothing is"):
        # any loss is too much, so rows are made that lose some: one large number a row leaves the others few codes
        _export_of_spoiled_rows(model, source, checkpoint, folder, tmp_path)
    assert sorted(path.name for path in pathlib.Path(folder).iterdir()) == names, "nothing is left of it"


def _export_of_spoiled_rows(model, source, checkpoint: str, folder: str, tmp_path: pathlib.Path) -> None:
    from ps_train.saved.values import Writer

    stored = tf.train.load_checkpoint(checkpoint)
    writer = Writer(str(tmp_path / "spoiled" / "model.ckpt-60"))
    for key in stored.get_variable_to_shape_map():
        value = stored.get_tensor(key)
        if key == "wide/ads":
            value = value.copy()
            value[:, :2] = [1e4, -1e4]  # they cancel out
        writer.add(key, np.asarray(value))
    writer.close()
    job = Job(export_dir=folder, export_rows="int8", export_max_auc_loss=0.0)
    export_model(job, model, source, str(tmp_path / "spoiled" / "model.ckpt-60"), folder)


def test_a_model_without_auc_is_refused_before_training() -> None:
    job = Job(export_dir="/e", export_rows="int8")
    with pytest.raises(ModelError, match=r"export_rows=int8 needs the AUC on the test split, and the model has none"):
        check_auc(job, {"accuracy": 1.0})
    assert check_auc(job, {"auc": 1.0}) == "auc" and check_auc(Job(), {}) == ""
