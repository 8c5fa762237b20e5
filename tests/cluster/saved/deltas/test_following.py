"""A served model with an open vocabulary: deltas bring ids and take them, and its index follows."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from ps_train import serving
from ps_train.base.errors import ConfigError
from ps_train.data.pipeline import DataSource
from ps_train.saved.deltas.chain import DeltaChain
from ps_train.saved.deltas.difference import make_delta
from ps_train.saved.export.export import export, prepare_export
from ps_train.saved.values import open_saved
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.vocabularies import Visits
from tests.support.saved.exported_models import write_table_export


@pytest.mark.long
def test_ids_that_come_and_go_have_the_rows_of_the_newest_export(tmp_path: pathlib.Path) -> None:
    ids = np.random.default_rng(1).geometric(0.01, (4000, 2))
    model = Visits(ids, capacity=120, admit_after=1, expire_steps=40, initializer=None)
    cluster = InProcessCluster(model, 2, 1, tmp_path / "model", optimizer="adagrad", batch_size=12, learning_rate=0.05)
    (tmp_path / "model").mkdir()
    cluster.start()
    source, folder = DataSource(lambda: model.data("train", "")), prepare_export(str(tmp_path / "export"))
    exports, chain = [], DeltaChain(str(tmp_path / "model"))
    for _ in range(3):
        cluster.train(25)
        checkpoint = cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0]))
        exports.append(export(model, source, checkpoint, folder))
        assert chain.extend()
    chain.close()
    shutil.copytree(exports[0], tmp_path / "served" / "1")
    with serving.load(str(tmp_path / "served"), poll_secs=0) as served:
        for number in (1, 2):
            delta = str(tmp_path / "served" / f"delta-{number}")
            manifest = make_delta(open_saved(exports[number - 1]), open_saved(exports[number]), delta)
            assert manifest.vocabularies["users"].added > 0 and "saved_model.pb" in manifest.changed_files
            assert served.update() == 1 and served.global_step == 25 * (number + 1)
            expected = tf.saved_model.load(exports[number]).signatures["serving_default"]
            wanted = expected(features=tf.constant(ids))["outputs"].numpy()
            np.testing.assert_array_equal(served.predict(ids)["outputs"], wanted)

    hidden = tmp_path / "model" / "deltas" / "000002"
    hidden.rename(tmp_path / "later")
    with serving.load(str(tmp_path / "model" / "deltas"), poll_secs=0, export=exports[2]) as served:
        for number in (1, 2):
            assert served.global_step == 25 * (number + 1), "the values are those of the chain, not of the export"
            expected = tf.saved_model.load(exports[number]).signatures["serving_default"]
            wanted = expected(features=tf.constant(ids))["outputs"].numpy()
            np.testing.assert_array_equal(served.predict(ids)["outputs"], wanted)
            if number == 1:
                (tmp_path / "later").rename(hidden)
                assert served.update() == 1
    with pytest.raises(ConfigError, match=r"has deltas of checkpoints and no SavedModel: give one .* by export="):
        serving.load(str(tmp_path / "model" / "deltas"))
    other = write_table_export(tmp_path / "other", np.zeros((3, 2), np.float32), 1.0)
    with pytest.raises(ConfigError, match=r"other has table \[3, 2\] float32, and the checkpoints .* have no such"):
        serving.load(str(tmp_path / "model" / "deltas"), export=other)
