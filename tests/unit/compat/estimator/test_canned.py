"""Canned models of tensorflow-estimator train on the engine, and end at TensorFlow's own values."""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import estimator
from ps_train.compat.estimator import canned
from ps_train.compat.estimator.spec.stock_package import missing_package
from ps_train.compat.tf1.contrib import make_contrib
from tests.support.long import long

needs_package = pytest.mark.skipif(bool(missing_package()), reason=missing_package())
number = tf.feature_column.numeric_column("number")
word = tf.feature_column.categorical_column_with_hash_bucket("word", 100)
both = [number, tf.feature_column.embedding_column(word, 4)]


def input_fn() -> tf.data.Dataset:
    random = np.random.RandomState(0)
    numbers, words = random.randn(320, 1).astype(np.float32), random.randint(0, 50, [320, 1]).astype(str)
    labels = (numbers[:, 0] > 0).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices(({"number": numbers, "word": words}, labels)).batch(32).repeat()


def combined(**options: Any) -> estimator.Estimator:
    return estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[word], dnn_feature_columns=both, dnn_hidden_units=[8], **options
    )


def deep(**options: Any) -> estimator.Estimator:
    return estimator.DNNClassifier([8, 4], both, optimizer="Adagrad", dropout=0.5, batch_norm=True, **options)


def linear(**options: Any) -> estimator.Estimator:
    return estimator.LinearRegressor([number, word], label_dimension=1, **options)


def baseline(**options: Any) -> estimator.Estimator:
    return estimator.BaselineClassifier(n_classes=2, **options)


Make = Callable[..., estimator.Estimator]


def trained(make: Make, directory: pathlib.Path, engine: str, max_steps: int) -> estimator.Estimator:
    config = estimator.RunConfig(str(directory), tf_random_seed=1, engine=engine)
    return make(config=config).train(input_fn, max_steps=max_steps)


@pytest.mark.long
@needs_package
@pytest.mark.parametrize("make", [combined, long(linear), long(baseline)], ids=lambda make: make.__name__)
def test_both_engines_go_on_from_the_same_checkpoint_to_the_same_values(tmp_path: pathlib.Path, make: Make) -> None:
    trained(make, tmp_path / "ours", "tensorflow", 3)
    shutil.copytree(tmp_path / "ours", tmp_path / "tensorflows")
    ours = trained(make, tmp_path / "ours", "ps_train", 20)
    tensorflows = trained(make, tmp_path / "tensorflows", "tensorflow", 20)
    assert isinstance(ours, estimator.Estimator)
    names = tensorflows.get_variable_names()
    assert {name for name in ours.get_variable_names() if not name.startswith("ps_train/")} == set(names)
    for name in names:
        np.testing.assert_array_equal(ours.get_variable_value(name), tensorflows.get_variable_value(name), name)


@pytest.mark.long
@needs_package
def test_a_deep_model_with_batch_norm_is_trained_scored_used_and_exported(tmp_path: pathlib.Path) -> None:
    model = trained(deep, tmp_path / "m", "ps_train", 100)
    assert model.evaluate(input_fn, steps=10)["global_step"] == 100
    (first, *_) = model.predict(lambda: input_fn().take(1))
    assert first["probabilities"].shape == (2,)
    spec = estimator.classifier_parse_example_spec(both, label_key="label")
    receiver = estimator.export.build_parsing_serving_input_receiver_fn(spec)
    exported = tf.saved_model.load(model.export_saved_model(str(tmp_path / "exported"), receiver).decode())
    assert set(exported.signatures) >= {"serving_default", "predict", "regression"}


@pytest.mark.long
@needs_package
def test_a_head_makes_the_spec_of_a_model_fn(tmp_path: pathlib.Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> estimator.EstimatorSpec:
        logits = tf.compat.v1.feature_column.linear_model(features, [number])
        step = tf.compat.v1.train.get_global_step()
        return estimator.BinaryClassHead().create_estimator_spec(
            features,
            mode,
            logits,
            labels=labels,
            train_op_fn=lambda loss: tf.compat.v1.train.FtrlOptimizer(0.1).minimize(loss, step),
            trainable_variables=tf.compat.v1.trainable_variables(),
        )

    config = estimator.RunConfig(str(tmp_path), engine="ps_train")
    model = estimator.Estimator(model_fn, config=config).train(input_fn, steps=30)
    assert model.evaluate(input_fn, steps=10)["accuracy"] > 0.9


@needs_package
@pytest.mark.parametrize("name", ["SUM", "SUM_OVER_BATCH_SIZE"])
@pytest.mark.parametrize("kind", ["BinaryClassHead", "LogisticRegressionHead", "RegressionHead"])
def test_a_head_takes_the_reductions_of_both_tensorflows(kind: str, name: str) -> None:
    losses = []
    for reduction in (getattr(tf.losses.Reduction, name), getattr(v1.losses.Reduction, name)):
        with tf.Graph().as_default(), v1.Session() as session:
            head = getattr(estimator, kind)(loss_reduction=reduction)
            labels, logits = tf.constant([[0.0], [1.0]]), tf.constant([[2.0], [3.0]])
            losses.append(session.run(head.loss(labels, logits, features={}, mode="eval")))
    assert losses[0] == losses[1] > 0


@needs_package
@pytest.mark.long
def test_the_head_of_contrib_makes_a_spec_too(tmp_path: pathlib.Path) -> None:
    head = make_contrib(lambda: estimator).estimator.binary_classification_head()

    def model_fn(features: Any, labels: Any, mode: str) -> estimator.EstimatorSpec:
        logits = tf.compat.v1.feature_column.linear_model(features, [number])
        optimizer = tf.compat.v1.train.FtrlOptimizer(0.1)
        return head.create_estimator_spec(features, mode, logits, tf.expand_dims(labels, 1), optimizer)

    model = estimator.Estimator(model_fn, config=estimator.RunConfig(str(tmp_path), engine="ps_train"))
    assert model.train(input_fn, steps=30).evaluate(input_fn, steps=10)["accuracy"] > 0.9


@needs_package
def test_modules_of_the_program_are_left_as_they_are() -> None:
    before = {name: module for name, module in sys.modules.items() if name.startswith("tensorflow_estimator")}
    assert estimator.DNNRegressor.__mro__[1] is estimator.Estimator
    assert sys.modules["tensorflow"] is tf
    assert {name: m for name, m in sys.modules.items() if name.startswith("tensorflow_estimator")} == before


@pytest.mark.parametrize(("missing", "named"), [("tensorflow_estimator", "tensorflow-estimator"), ("tf_keras",) * 2])
def test_without_a_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str, named: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find("json"))
    with pytest.raises(AttributeError, match=r"pip install '\.\[estimator\]'") as caught:
        canned.canned("DNNClassifier")
    assert named.replace("_", "-") in str(caught.value)


def test_other_names_are_none_of_them() -> None:
    assert canned.canned("DNN") is None
    with pytest.raises(AttributeError, match=r"ps_train\.estimator has no DNN: use another name"):
        estimator.DNN  # noqa: B018


@needs_package
def test_a_canned_model_says_which_optimizer_to_use_for_one_of_keras(tmp_path: pathlib.Path) -> None:
    made = estimator.DNNClassifier([4], both, optimizer=tf.keras.optimizers.Adagrad(0.1), model_dir=str(tmp_path))
    with pytest.raises(ValueError, match=r"use tf\.train\.AdagradOptimizer"):
        made.train(input_fn, max_steps=1)
