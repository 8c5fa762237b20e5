"""An exported model predicts what the model predicts, in a plain TensorFlow process without this package."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, ModelError
from ps_train.data.arrays import Arrays
from ps_train.data.pipeline import DataSource, evaluation_batches
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues
from ps_train.models.clicks.synthetic import write_files
from ps_train.models.criteo import DeepFM
from ps_train.models.digits import Digits
from ps_train.saved.export.export import export, prepare_export, served_features
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear
from tests.support.saved.serving import served


def predicted(model, checkpoint: str, features) -> dict[str, np.ndarray]:
    """By a plain graph."""
    with tf.Graph().as_default(), v1.Session() as session:
        given = tf.nest.map_structure(tf.constant, features)
        outputs = model.predictions(model.forward(given, training=False))
        CheckpointValues(checkpoint).restore(session, v1.global_variables())
        return session.run(dict(outputs))


def exported(tmp_path: pathlib.Path, model, num_ps: int = 2, **fields) -> str:
    cluster = InProcessCluster(model, num_ps, 1, tmp_path / "model", **fields)
    (tmp_path / "model").mkdir()
    cluster.start()
    cluster.train(5)
    assert cluster.checkpoints is not None
    checkpoint = cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0]))
    export(model, DataSource(lambda: model.data("train", "")), checkpoint, prepare_export(str(tmp_path / "export")))
    return checkpoint


@pytest.mark.long
def test_a_model_of_tables_predicts_the_same_from_raw_features_and_from_examples(tmp_path: pathlib.Path) -> None:
    write_files(str(tmp_path / "data"), lines=500)

    class Here(DeepFM):
        def data(self, split, data_dir):
            return super().data(split, str(tmp_path / "data"))

    model = Here(buckets=50, dimension=4)
    checkpoint = exported(tmp_path, model, batch_size=32)
    with tf.Graph().as_default(), v1.Session() as session:
        batches = evaluation_batches(model.data("test", ""), 64)
        session.run(batches.initializer, batches.feeds())
        features = session.run(batches.features)
    expected, found = predicted(model, checkpoint, features), served(tmp_path, features)
    assert expected["probabilities"].std() > 0.01 and found.keys() == {
        f"{way}_{what}" for way in ("raw", "parsed") for what in ("probabilities", "logits")
    }
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name.partition("_")[2]], atol=1e-6, err_msg=name)


@pytest.mark.long
def test_a_model_of_one_array_is_served_by_the_name_features_and_an_earlier_export_stays(
    tmp_path: pathlib.Path,
) -> None:
    earlier = {name: tmp_path / "export" / name for name in ("saved_model.pb", "2/saved_model.pb", "notes/3")}
    for name, path in earlier.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    model = Digits(hidden=8)
    checkpoint = exported(tmp_path, model, 1, batch_size=8)
    images = model.data("test", "").features[:20]
    expected, found = predicted(model, checkpoint, images), served(tmp_path, {"features": images}, "export/3")
    np.testing.assert_allclose(found["raw_probabilities"], expected["probabilities"], atol=1e-6)
    np.testing.assert_array_equal(found["parsed_classes"], expected["classes"])
    assert {name: path.read_text() for name, path in earlier.items()} == {name: name for name in earlier}
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == ["2", "3", "notes", "saved_model.pb"]


def test_each_export_has_the_next_number_on_any_file_system_of_tensorflow_and_fsspec(
    tmp_path: pathlib.Path,
) -> None:
    model = Digits(hidden=8)
    checkpoint = exported(tmp_path, model, 1, batch_size=8)
    assert [path.name for path in (tmp_path / "export").iterdir()] == ["1"]
    source, there = DataSource(lambda: model.data("train", "")), "ram://exports/digits"
    assert prepare_export(there) == there
    assert [export(model, source, checkpoint, there) for _ in range(2)] == [f"{there}/1", f"{there}/2"]
    assert sorted(tf.io.gfile.listdir(there)) == ["1", "2"]
    loaded = tf.saved_model.load(f"{there}/2").signatures["serving_default"]
    images = model.data("test", "").features[:5]
    expected = predicted(model, checkpoint, images)["probabilities"]
    np.testing.assert_allclose(loaded(features=tf.constant(images))["probabilities"], expected, atol=1e-6)

    fsspec = pytest.importorskip("fsspec")
    files, there = fsspec.filesystem("memory"), "memory://exports/digits"
    assert prepare_export(there) == there
    assert [export(model, source, checkpoint, there) for _ in range(2)] == [f"{there}/1", f"{there}/2"]
    files.get(f"{there}/2", str(tmp_path / "from_memory"), recursive=True)
    loaded = tf.saved_model.load(str(tmp_path / "from_memory")).signatures["serving_default"]
    np.testing.assert_allclose(loaded(features=tf.constant(images))["probabilities"], expected, atol=1e-6)


def test_features_may_have_any_names(tmp_path: pathlib.Path) -> None:
    names = ["my feature", "9/kilo-watts", "b", "w", "städte"]

    class Named(Linear):
        def data(self, split, data_dir):
            arrays = super().data(split, data_dir)
            return Arrays({name: arrays.features + number for number, name in enumerate(names)}, arrays.labels)

        def forward(self, features, training):
            return super().forward(sum(features[name] for name in names), training)

    model = Named()
    checkpoint = exported(tmp_path, model, 1, batch_size=8)
    features = {name: values[:5] for name, values in model.data("test", "").features.items()}
    expected = predicted(model, checkpoint, features)["outputs"]
    signatures = tf.saved_model.load(str(tmp_path / "export" / "1")).signatures
    served = signatures["serving_default"](**{name: tf.constant(value) for name, value in features.items()})
    np.testing.assert_allclose(served["outputs"], expected, rtol=1e-5)

    def example(row):
        made = {name: tf.train.Feature(float_list=tf.train.FloatList(value=v[row])) for name, v in features.items()}
        return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()

    parsed = signatures["examples"](examples=tf.constant([example(row) for row in range(5)]))
    np.testing.assert_allclose(parsed["outputs"], expected, rtol=1e-5)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "letters").write_text("dear to somebody")
    for path in (tmp_path / "letters", tmp_path / "letters" / "export"):
        with pytest.raises(ConfigError, match=r"export_dir=.*letters.* cannot be written"):
            prepare_export(str(path))


class Lists(Linear):
    """Adds up what an example's lists stand for; the positions of `wide` have a meaning."""

    def data(self, split, data_dir):
        lists = tf.ragged.constant([[1, 2], [], [3], [4, 4, 1]] * 4, dtype=tf.int64)
        wide = tf.sparse.from_dense([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 1.0]] * 4)
        return tf.data.Dataset.from_tensor_slices(({"ids": lists, "wide": wide}, tf.ones([16])))

    def forward(self, features, training):
        rows = v1.get_variable("rows", [5, 2])
        weights = v1.get_variable("weights", [3, 1])
        by_id = tf.reduce_sum(tf.nn.embedding_lookup(rows, features["ids"]), [1, 2])
        return by_id + tf.sparse.sparse_dense_matmul(features["wide"], weights)[:, 0]


@pytest.mark.long
def test_ragged_and_sparse_features_are_served(tmp_path: pathlib.Path) -> None:
    model = Lists()
    checkpoint = exported(tmp_path, model, batch_size=4)
    values = tf.train.load_checkpoint(checkpoint)
    rows, weights = values.get_tensor("rows").sum(1), values.get_tensor("weights")[:, 0]
    expected = [rows[4] + rows[1] + 2 * weights[2], 3 * weights[0]]
    signatures = tf.saved_model.load(str(tmp_path / "export" / "1")).signatures
    raw = signatures["serving_default"](
        ids_values=tf.constant([4, 1], tf.int64),
        ids_row_splits=tf.constant([0, 2, 2], tf.int64),
        wide_indices=tf.constant([[0, 2], [1, 0]], tf.int64),
        wide_values=tf.constant([2.0, 3.0]),
        wide_dense_shape=tf.constant([2, 3], tf.int64),
    )
    np.testing.assert_allclose(raw["outputs"], expected, rtol=1e-5)
    examples = [
        _example(ids=[4, 1], wide_indices=[2], wide_values=[2.0]),
        _example(wide_indices=[0], wide_values=[3.0]),
    ]
    parsed = signatures["examples"](examples=tf.constant(examples))
    np.testing.assert_allclose(parsed["outputs"], expected, rtol=1e-5)


def _example(**lists: list[float]) -> bytes:
    features = tf.train.Features()
    for name, values in lists.items():
        if isinstance(values[0], int):
            features.feature[name].int64_list.value.extend(values)
        else:
            features.feature[name].float_list.value.extend(values)
    return tf.train.Example(features=features).SerializeToString()


def test_features_that_cannot_be_served_are_refused_before_training(tmp_path: pathlib.Path) -> None:
    def data():
        signature = (tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.float32))
        return tf.data.Dataset.from_generator(lambda: iter(()), output_signature=signature)

    with pytest.raises(ModelError, match=r"feature features has the shape \(None, None\)"):
        served_features(DataSource(data))
