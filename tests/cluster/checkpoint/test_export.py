"""An exported model predicts what the model predicts, in a plain TensorFlow process without this package."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint.contents import restore_into
from ps_train.checkpoint.export import export, prepare_export
from ps_train.data.arrays import Arrays
from ps_train.data.pipeline import DataSource, evaluation_batches
from ps_train.errors import ConfigError, ModelError
from ps_train.models.clicks.synthetic import write_files
from ps_train.models.criteo import DeepFM
from ps_train.models.digits import Digits
from tests.support.cluster import InProcessCluster
from tests.support.models import Linear
from tests.support.serving import served


def predicted(model, checkpoint: str, features) -> dict[str, np.ndarray]:
    """By a plain graph."""
    with tf.Graph().as_default(), v1.Session() as session:
        given = tf.nest.map_structure(tf.constant, features)
        outputs = model.predictions(model.forward(given, training=False))
        restore_into(session, v1.global_variables(), checkpoint)
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


def test_a_model_of_one_array_is_served_by_the_name_features_and_an_earlier_export_is_replaced(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "saved_model.pb").write_text("of an earlier run")
    model = Digits(hidden=8)
    checkpoint = exported(tmp_path, model, 1, batch_size=8)
    images = model.data("test", "").features[:20]
    expected, found = predicted(model, checkpoint, images), served(tmp_path, {"features": images})
    np.testing.assert_allclose(found["raw_probabilities"], expected["probabilities"], atol=1e-6)
    np.testing.assert_array_equal(found["parsed_classes"], expected["classes"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export", "features.npz", "model", "served.npz"]


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
    signatures = tf.saved_model.load(str(tmp_path / "export")).signatures
    served = signatures["serving_default"](**{name: tf.constant(value) for name, value in features.items()})
    np.testing.assert_allclose(served["outputs"], expected, rtol=1e-5)

    def example(row):
        made = {name: tf.train.Feature(float_list=tf.train.FloatList(value=v[row])) for name, v in features.items()}
        return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()

    parsed = signatures["examples"](examples=tf.constant([example(row) for row in range(5)]))
    np.testing.assert_allclose(parsed["outputs"], expected, rtol=1e-5)


def test_a_directory_that_holds_something_else_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "letters").write_text("dear to somebody")
    with pytest.raises(ConfigError, match=r"export_dir=.* holds something that is not a SavedModel"):
        prepare_export(str(tmp_path))
    with pytest.raises(ConfigError, match="holds something that is not a SavedModel"):
        prepare_export(str(tmp_path / "letters"))
    with pytest.raises(ConfigError, match="cannot be written"):
        prepare_export(str(tmp_path / "letters" / "export"))


def test_features_without_a_fixed_shape_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    class Ragged(Linear):
        def data(self, split, data_dir):
            return tf.data.Dataset.from_tensor_slices((tf.ragged.constant([[1.0], [2.0, 3.0]]), [1.0, 2.0]))

    with pytest.raises(ModelError, match="feature features has no fixed shape"):
        export(Ragged(), DataSource(lambda: Ragged().data("train", "")), "", str(tmp_path / "export"))
