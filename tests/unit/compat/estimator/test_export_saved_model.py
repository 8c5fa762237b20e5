"""Exports serve what the trained model predicts, in directories that only grow."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import serving
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.export_outputs import PredictOutput, RegressionOutput
from ps_train.estimator.export import ServingInputReceiver, TensorServingInputReceiver
from ps_train.saved.deltas.difference import make_delta
from ps_train.saved.export.fingerprint import read_fingerprint
from ps_train.saved.values import open_saved
from tests.support.compat.estimators import X, estimator, forever, model_fn, spec_of, weights_after, with_fields


def raw() -> ServingInputReceiver:
    features = {"x": v1.placeholder(tf.float32, [None, 2])}
    return ServingInputReceiver(features, features)


def parsing(**alternatives) -> ServingInputReceiver:
    """Examples by default; with alternatives, also features that are fed behind the parser."""
    examples = v1.placeholder(tf.string, [None])
    parsed = v1.io.parse_example(examples, {"x": tf.io.FixedLenFeature([2], tf.float32)})
    groups = {name: {"x": parsed["x"]} for name in alternatives.get("names", ())}
    return ServingInputReceiver(parsed, {"examples": examples}, groups or None)


def example(row: np.ndarray) -> bytes:
    value = tf.train.Feature(float_list=tf.train.FloatList(value=row))
    return tf.train.Example(features=tf.train.Features(feature={"x": value})).SerializeToString()


def test_point_79_an_export_serves_the_trained_model(tmp_path):
    trained = estimator(tmp_path / "m").train(forever, steps=3)
    path = trained.export_saved_model(str(tmp_path / "export"), raw)
    served = tf.saved_model.load(path.decode()).signatures["serving_default"](x=tf.constant(X))
    assert served["y"].numpy() == pytest.approx(X @ weights_after(3), rel=1e-4, abs=1e-6)


def test_an_export_has_the_fingerprint_by_which_a_served_model_follows_the_next_one(tmp_path):
    paths = []
    for steps in (3, 2):
        paths.append(
            os.fsdecode(estimator(tmp_path / "m").train(forever, steps=steps).export_saved_model(tmp_path / "e", raw))
        )
    assert [read_fingerprint(path)["global_step"] for path in paths] == [3, 5]
    shutil.copytree(paths[0], tmp_path / "served" / "1")
    with serving.load(str(tmp_path / "served"), poll_secs=0) as served:
        assert served.predict({"x": X})["y"] == pytest.approx(X @ weights_after(3), rel=1e-4, abs=1e-6)
        make_delta(open_saved(paths[0]), open_saved(paths[1]), str(tmp_path / "served" / "delta"))
        assert served.update() == 1 and served.global_step == 5
        again = tf.saved_model.load(paths[1]).signatures["serving_default"](x=tf.constant(X))
        assert np.array_equal(served.predict({"x": X})["y"], again["y"])


def test_point_79_paths_are_bytes_of_ten_digits_that_grow(tmp_path, monkeypatch):
    trained = estimator(tmp_path / "m").train(forever, steps=1)
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    paths = [trained.export_saved_model(tmp_path / "export", raw) for _ in range(3)]
    expected = [str(tmp_path / "export" / str(1_700_000_000 + i)).encode() for i in range(3)]
    assert paths == expected
    assert sorted(os.listdir(tmp_path / "export")) == [os.path.basename(path).decode() for path in paths]


def test_point_79_a_failed_export_leaves_nothing(tmp_path):
    trained = estimator(tmp_path / "m").train(forever, steps=1)
    with pytest.raises(tf.errors.NotFoundError):
        trained.export_saved_model(str(tmp_path / "export"), raw, assets_extra={"a": str(tmp_path / "absent")})
    assert os.listdir(tmp_path / "export") == []


def test_point_79_export_outputs_and_alternatives_give_signatures(tmp_path):
    def function(features, labels, mode):
        spec = spec_of(mode, features, labels)
        outputs = {
            "serving_default": PredictOutput(spec.predictions),
            "regression": RegressionOutput(spec.predictions["y"]),
        }
        return EstimatorSpec(spec.mode, predictions=spec.predictions, export_outputs=outputs)

    estimator(tmp_path / "m").train(forever, steps=2)
    exporting = estimator(tmp_path / "m", function)
    path = exporting.export_saved_model(str(tmp_path / "export"), lambda: parsing(names=["features"]))
    signatures = tf.saved_model.load(path.decode()).signatures
    assert set(signatures) == {"serving_default", "regression", "features:serving_default"}
    expected = X[:4] @ weights_after(2)
    examples = tf.constant([example(row) for row in X[:4]])
    assert signatures["serving_default"](examples=examples)["y"].numpy() == pytest.approx(expected, rel=1e-4)
    assert signatures["regression"](inputs=examples)["outputs"].numpy() == pytest.approx(expected, rel=1e-4)
    assert signatures["features:serving_default"](x=tf.constant(X[:4]))["y"].numpy() == pytest.approx(
        expected, rel=1e-4
    )


def test_point_79_a_signature_that_needs_another_placeholder_is_left_out(tmp_path, caplog):
    def receiver():
        rate = v1.placeholder(tf.float32, [], "rate")
        x = v1.placeholder(tf.float32, [None, 2])
        return ServingInputReceiver({"x": x * rate}, {"x": x}, {"both": {"x": x, "rate": rate}})

    trained = estimator(tmp_path / "m").train(forever, steps=1)
    with caplog.at_level("INFO"):
        path = trained.export_saved_model(str(tmp_path / "export"), receiver)
    assert "signature serving_default is left out: it needs rate" in caplog.text
    assert list(tf.saved_model.load(path.decode()).signatures) == ["both:serving_default"]


def test_point_79_assets_extra_are_copied(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\n")
    trained = estimator(tmp_path / "m").train(forever, steps=1)
    path = trained.export_saved_model(
        str(tmp_path / "export"), raw, assets_extra={"deep/w.txt": str(tmp_path / "words.txt")}
    )
    assert (pathlib.Path(path.decode()) / "assets.extra" / "deep" / "w.txt").read_text() == "a\nb\n"


def test_point_79_as_text_and_with_default_attributes(tmp_path):
    trained = estimator(tmp_path / "m").train(forever, steps=1)
    new = trained.export_saved_model(str(tmp_path / "export"), raw, as_text=True)
    old = trained.export_savedmodel(str(tmp_path / "export"), raw, as_text=True)
    texts = [(pathlib.Path(path.decode()) / "saved_model.pbtxt").read_text() for path in (new, old)]
    assert [text.count('key: "transpose_a"') > 0 for text in texts] == [False, True]


def test_point_79_vocabularies_are_assets(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\n")

    def function(features, labels, mode):
        init = tf.lookup.TextFileInitializer(str(tmp_path / "words.txt"), tf.string, -2, tf.int64, -1)
        table = tf.lookup.StaticHashTable(init, -1)
        step = v1.train.get_global_step().assign_add(1)
        ids = table.lookup(features["word"])
        return EstimatorSpec(mode, predictions={"id": ids}, loss=tf.reduce_sum(tf.cast(ids, tf.float32)), train_op=step)

    def words():
        return tf.data.Dataset.from_tensors({"word": tf.constant(["b", "a"])}).repeat()

    def receiver():
        features = {"word": v1.placeholder(tf.string, [None])}
        return ServingInputReceiver(features, features)

    trained = estimator(tmp_path / "m", function).train(words, steps=1)
    path = trained.export_saved_model(str(tmp_path / "export"), receiver)
    (tmp_path / "words.txt").unlink()
    served = tf.saved_model.load(path.decode()).signatures["serving_default"]
    assert served(word=tf.constant(["b", "c"]))["id"].numpy().tolist() == [1, -1]


def test_an_older_checkpoint_is_exported_by_its_path(tmp_path):
    trained = estimator(tmp_path / "m", save_checkpoints_steps=2).train(forever, steps=5)
    path = trained.export_saved_model(
        str(tmp_path / "export"), raw, checkpoint_path=str(tmp_path / "m" / "model.ckpt-2")
    )
    served = tf.saved_model.load(path.decode()).signatures["serving_default"](x=tf.constant(X))
    assert served["y"].numpy() == pytest.approx(X @ weights_after(2), rel=1e-4, abs=1e-6)


def test_a_single_tensor_is_served_as_it_is(tmp_path):
    def function(features, labels, mode):
        return spec_of(mode, {"x": features}, labels)

    def receiver():
        tensor = v1.placeholder(tf.float32, [None, 2])
        return TensorServingInputReceiver(tensor, tensor)

    estimator(tmp_path / "m").train(forever, steps=1)
    path = estimator(tmp_path / "m", function).export_saved_model(str(tmp_path / "export"), receiver)
    assert "y" in tf.saved_model.load(path.decode()).signatures["serving_default"](input=tf.constant(X))


def test_point_81_without_a_checkpoint_there_is_nothing_to_export(tmp_path):
    with pytest.raises(ValueError, match=rf"Couldn't find trained model: model_dir={tmp_path}"):
        estimator(tmp_path).export_saved_model(str(tmp_path / "export"), raw)
    assert not (tmp_path / "export").exists()


def test_point_81_a_warm_start_can_be_exported(tmp_path):
    estimator(tmp_path / "old").train(forever, steps=3)
    new = Estimator(model_fn, str(tmp_path / "new"), warm_start_from=str(tmp_path / "old"))
    path = new.export_saved_model(str(tmp_path / "export"), raw)
    served = tf.saved_model.load(path.decode()).signatures["serving_default"](x=tf.constant(X))
    assert served["y"].numpy() == pytest.approx(X @ weights_after(3), rel=1e-4, abs=1e-6)


def test_point_81_a_checkpoint_that_lacks_a_variable_is_not_exported(tmp_path):
    estimator(tmp_path).train(forever, steps=1)
    more = with_fields(predictions=lambda: {"v": tf.identity(v1.get_variable("v", [3]))})
    with pytest.raises(ValueError, match=r"lacks variables of the model_fn in mode infer: \['v'\]"):
        estimator(tmp_path, more).export_saved_model(str(tmp_path / "export"), raw)


@pytest.mark.parametrize("name", ["export_saved_model", "export_savedmodel"])
def test_a_function_of_the_inputs_is_needed(tmp_path, name):
    with pytest.raises(ValueError, match="serving_input_receiver_fn is missing"):
        getattr(estimator(tmp_path), name)(str(tmp_path / "export"), None)


def test_another_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="experimental_mode='train' cannot be exported"):
        estimator(tmp_path).export_saved_model(str(tmp_path), raw, experimental_mode="train")
    with pytest.raises(ValueError, match="use export_saved_model"):
        estimator(tmp_path).experimental_export_all_saved_models(str(tmp_path), {"infer": raw})


SERVE = """
import sys
sys.modules["ps_train"] = None  # whoever imports it fails
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](x=tf.constant([[1.0, 0.0], [0.0, 1.0]]))
print("served", served["y"].numpy().tolist())
"""


def test_point_81_an_export_serves_without_this_package(tmp_path):
    path = estimator(tmp_path / "m").train(forever, steps=3).export_saved_model(str(tmp_path / "export"), raw)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", SERVE, path.decode()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    found = re.search(r"served \[(.*), (.*)\]", done.stdout)
    assert found, done.stderr
    assert [float(value) for value in found.groups()] == pytest.approx(weights_after(3), rel=1e-5)
