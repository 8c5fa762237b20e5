"""Predictions come one for each example or batch, from the right values."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from tests.support.compat.estimators import (
    BATCH,
    Recorder,
    X,
    estimator,
    features_only,
    forever,
    model_fn,
    once,
    spec_of,
    weights_after,
    with_fields,
)


def two(features, labels, mode):
    """A model_fn with two predictions of one number each."""
    weights = v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer())
    return EstimatorSpec(mode, predictions={"x": features["x"], "y": tf.matmul(features["x"], weights)[:, 0]})


def test_point_77_one_dict_for_each_example(tmp_path):
    trained = estimator(tmp_path).train(forever, steps=3)
    found = list(trained.predict(features_only))
    assert len(found) == len(X) and all(list(one) == ["y"] for one in found)
    assert np.array([one["y"] for one in found]) == pytest.approx(X @ weights_after(3), rel=1e-4, abs=1e-6)


def test_point_77_whole_batches(tmp_path):
    found = list(estimator(tmp_path).predict(features_only, yield_single_examples=False))
    assert [batch["y"].shape for batch in found] == [(BATCH,)] * (len(X) // BATCH)


@pytest.mark.parametrize("single", [True, False])
def test_point_77_a_single_tensor_gives_rows(tmp_path, single):
    def rows(features, labels, mode):
        return EstimatorSpec(mode, predictions=features["x"])

    found = list(estimator(tmp_path, rows).predict(features_only, yield_single_examples=single))
    assert np.reshape(found, [-1, 2]).tolist() == X.tolist()
    assert found[0].shape == ((2,) if single else (BATCH, 2))


@pytest.mark.parametrize("keys", [["x"], "x", {"x", "absent"}])
def test_point_77_predict_keys_choose(tmp_path, keys):
    found = next(estimator(tmp_path, two).predict(features_only, predict_keys=keys))
    assert list(found) == ["x"]


def test_point_77_unknown_predict_keys_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\['z'\] are not among the predictions: allowed are \['x', 'y'\]"):
        next(estimator(tmp_path, two).predict(features_only, predict_keys=["z"]))
    function = with_fields(predictions=lambda: tf.ones([3]))
    with pytest.raises(ValueError, match="needs predictions that are a dict"):
        next(estimator(tmp_path, function).predict(features_only, predict_keys=["y"]))


def test_point_77_different_batch_sizes_are_refused(tmp_path):
    for other in (tf.ones([3]), tf.constant(1.0)):
        value = other.numpy()
        function = with_fields(predictions=lambda value=value: {"a": tf.ones([2]), "b": tf.constant(value)})
        with pytest.raises(ValueError, match="must all have the batch's size"):
            next(estimator(tmp_path, function).predict(features_only))
        whole = next(estimator(tmp_path, function).predict(features_only, yield_single_examples=False))
        assert whole["b"].tolist() == value.tolist()


def test_point_78_a_checkpoint_by_its_path(tmp_path):
    trained = estimator(tmp_path, save_checkpoints_steps=2).train(forever, steps=5)
    found = next(trained.predict(features_only, checkpoint_path=str(tmp_path / "model.ckpt-2")))
    assert found["y"] == pytest.approx(X[0] @ weights_after(2), rel=1e-4)


def test_point_78_initial_values_without_a_checkpoint(tmp_path):
    assert next(estimator(tmp_path).predict(features_only))["y"] == 0.0


def test_point_78_a_warm_start_without_a_checkpoint(tmp_path):
    estimator(tmp_path / "old").train(forever, steps=3)
    new = Estimator(model_fn, str(tmp_path / "new"), warm_start_from=str(tmp_path / "old"))
    assert next(new.predict(features_only))["y"] == pytest.approx(X[0] @ weights_after(3), rel=1e-4)


def test_point_78_labels_are_ignored(tmp_path):
    seen = []

    def looking(features, labels, mode):
        seen.append(labels)
        return spec_of(mode, features, labels)

    assert len(list(estimator(tmp_path, looking).predict(once))) == len(X)
    assert seen == [None]


def test_point_78_prediction_hooks_run(tmp_path):
    calls: list[str] = []
    function = with_fields(prediction_hooks=lambda: [Recorder(calls, "spec ")])
    list(estimator(tmp_path, function).predict(features_only, hooks=[Recorder(calls, "call ")]))
    assert calls.count("call after_run") == calls.count("spec after_run") == len(X) // BATCH
    assert calls[-2:] == ["call end", "spec end"]


def test_two_predictions_can_be_read_in_turns(tmp_path):
    made = estimator(tmp_path)
    first, second = made.predict(features_only), made.predict(features_only)
    pairs = list(zip(first, second, strict=True))
    assert len(pairs) == len(X) and tf.executing_eagerly()


def test_a_prediction_that_is_left_early_is_closed_without_an_error(tmp_path):
    found = estimator(tmp_path).predict(features_only)
    next(found)
    found.close()
    assert list(found) == []


def test_an_input_without_end_is_a_warning(tmp_path, caplog):
    found = estimator(tmp_path).predict(lambda: {"x": tf.ones([3, 2])})
    assert [next(found)["y"] for _ in range(7)] == [0.0] * 7
    assert "predictions will not end" in caplog.text
