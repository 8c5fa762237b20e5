"""Added metrics join those of the model in evaluations, and nowhere else."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.early_stopping import add_metrics
from tests.support.compat.estimators import Y, estimator, features_only, forever, once


def test_metrics_are_added_and_replaced(tmp_path):
    def metric_fn(labels, predictions, features, config):
        return {
            "labels": v1.metrics.mean(labels),
            "mae": v1.metrics.mean(predictions["y"] * 0 + config.tf_random_seed + 0 * features["x"][:, 0]),
        }

    plain = estimator(tmp_path, tf_random_seed=5)
    more = add_metrics(plain, metric_fn)
    result = more.train(forever, steps=2).evaluate(once)
    assert result["labels"] == pytest.approx(Y.mean(), rel=1e-5) and result["mae"] == 5 and result["global_step"] == 2
    assert "labels" not in plain.evaluate(once)
    assert len(list(more.predict(features_only))) == len(Y)


def test_the_new_estimator_has_directory_and_configuration(tmp_path):
    more = add_metrics(estimator(tmp_path, tf_random_seed=5), lambda labels: {})
    assert more.model_dir == str(tmp_path) and more.config.tf_random_seed == 5


def test_an_unknown_argument_is_refused(tmp_path):
    with pytest.raises(ValueError, match="metric_fn f takes weights"):

        def f(labels, weights):
            return {}

        add_metrics(estimator(tmp_path), f)
