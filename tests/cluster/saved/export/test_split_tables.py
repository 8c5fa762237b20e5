"""Exports in parts: the scores of the reader in the documents are those of the whole SavedModel."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings
from ps_train.base.errors import ConfigError
from ps_train.data.pipeline import DataSource
from ps_train.saved.export import split_tables
from ps_train.saved.export.export import ExportForm, export, prepare_export
from ps_train.saved.export.fingerprint import FILE, read_fingerprint
from ps_train.saved.serving.exported import Exported
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long

DOCUMENT = pathlib.Path(__file__).parents[4] / "docs" / "serve.md"


class Shop(Model):
    """Tables of every kind: by field, hashed, open for strings and for numbers; one is looked up twice."""

    default_learning_rate = 0.5

    def data(self, split: str, data_dir: str) -> Arrays:
        chance = np.random.default_rng(4)
        names = np.array([f"user-{number}" for number in chance.geometric(0.05, 400)])
        features = {
            "fields": np.stack([chance.integers(0, 50, 400), chance.integers(0, 7, 400)], 1),
            "seen": chance.integers(0, 10_000, (400, 3)),
            "user": names,
            "item": chance.geometric(0.1, 400),
        }
        return Arrays(features, chance.random(400).astype(np.float32))

    def forward(self, features, training):
        rows = [
            tf.reshape(
                embeddings.lookup("fields", features["fields"], rows=[50, 7], oov="default", dimension=3), [-1, 6]
            ),
            embeddings.lookup("deep/seen", features["seen"], "mean", hash_buckets=300, dimension=4),
            embeddings.lookup("deep/seen", features["item"], hash_buckets=300, dimension=4),
            embeddings.lookup("users", features["user"], capacity=30, dimension=2, admit_after=2, expire_steps=30),
            embeddings.lookup("items", features["item"], capacity=20, dimension=2),
        ]
        return tf.squeeze(tf.concat(rows, 1) @ v1.get_variable("w", [18, 1]), 1)

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs - labels))


def reader_of_document():
    """Returns the class of the page, run from its text."""
    (block,) = [
        one for one in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL) if "class Tables" in one
    ]
    assert len(block.splitlines()) < 45
    names: dict = {}
    exec(block, names)
    return names["Tables"]


@pytest.mark.parametrize("num_ps", [1, long(2)])
def test_scores_are_those_of_the_whole_saved_model(
    tmp_path: pathlib.Path, num_ps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_tables, "_PART_BYTES", 300)  # several parts and shards of tables this small
    monkeypatch.setattr(split_tables, "SHARD_BYTES", 400)
    model = Shop()
    cluster = InProcessCluster(model, num_ps, 1, tmp_path / "model", batch_size=20)
    (tmp_path / "model").mkdir()
    cluster.start()
    cluster.train(60)
    checkpoint = cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0]))
    source, folder = DataSource(lambda: model.data("train", "")), prepare_export(str(tmp_path / "export"))
    paths = [export(model, source, checkpoint, folder, form) for form in (ExportForm(), ExportForm(is_split=True))]

    features = {name: values[:100] for name, values in model.data("test", "").features.items()}
    features["user"][:3], features["fields"][0] = "never seen", [50, -1]
    given = {name: tf.constant(values) for name, values in features.items()}
    whole, split = (tf.saved_model.load(path) for path in paths)
    tables = reader_of_document()(paths[1])
    ids = split.signatures["ids"](**given)
    assert ids.keys() == tables.tables.keys() == {"fields", "deep/seen", "users", "items"}
    assert ids["deep/seen"].shape == [400] and ids["users"].shape == [100, 2]
    rows = {f"rows/{name}": tf.constant(tables.rows(name, ids[name].numpy())) for name in tables.tables}
    found = split.signatures["serving_default"](**given, **rows)["outputs"]
    expected = whole.signatures["serving_default"](**given)["outputs"].numpy()
    assert expected.std() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-6)

    manifest = json.loads((pathlib.Path(paths[1]) / "tables.json").read_text())["tables"]
    assert manifest["fields"]["rows"] == 59 and len(manifest["fields"]["shards"]) > 2
    assert 0 < manifest["users"]["rows"] <= 30 and manifest["users"]["key_width"] == 2
    for table in manifest.values():
        for before, after in zip(table["shards"], table["shards"][1:], strict=False):
            assert before["last"] < after["first"], "shards and keys are sorted"
    dense = {name for name, _ in tf.train.list_variables(f"{paths[1]}/variables/variables")}
    assert "users" not in dense and "fields" not in dense and "w" in dense

    with pytest.raises(ConfigError, match="is an export in parts: give a whole one"):
        Exported(paths[1])

    prints = [read_fingerprint(path) for path in paths]
    assert prints[0]["global_step"] == prints[1]["global_step"] == 60
    again = export(model, source, checkpoint, folder)
    assert read_fingerprint(again) == prints[0], "the fingerprint is that of the model"
    assert (pathlib.Path(again) / FILE).exists() and not list(pathlib.Path(folder).glob("*.new"))


def test_a_table_takes_bounded_memory(tmp_path: pathlib.Path) -> None:
    """See `benchmarks`: here only that no part or shard is larger than its bound."""
    table = embeddings.Table("t", 16, rows=1_000_000)
    step = split_tables._runs(table, 8 + 64)[0][1]
    assert step * 72 <= 8 << 20 and sum(count for _, count in split_tables._runs(table, 72)) == 1_000_000
    cuts = split_tables._cuts("t", table, None, 72)
    assert np.diff(cuts).max() * 72 <= 16 << 20 and cuts[-1] < 1_000_000
