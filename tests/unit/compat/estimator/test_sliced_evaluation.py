"""Metrics of parts of an Estimator's evaluation data are those of these examples alone."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import metrics
from ps_train.base.errors import ConfigError
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from tests.support.compat.estimators import events_in

COUNT, BATCH = 300, 32
RANDOM = np.random.default_rng(4)
X, Y = RANDOM.normal(size=COUNT).astype(np.float32), (RANDOM.random(COUNT) < 0.4).astype(np.float32)
COUNTRY = np.array(["de", "fr", "\u00e9\n"])[np.minimum(np.arange(COUNT) // 140, 2)]
USER = RANDOM.integers(0, 9, COUNT)


def model_fn(features, labels, mode):
    w = v1.get_variable("w", [], initializer=v1.constant_initializer(2.0))
    scores = w * features["x"]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=scores))
    of_mode = {
        "gauc": metrics.grouped_auc(labels, scores, features["user"]),
        "mean": v1.metrics.mean(scores),
        "each": v1.metrics.mean_tensor(tf.reduce_mean(tf.stack([scores, labels], 1), 0)),
    }
    train = v1.train.GradientDescentOptimizer(0.0).minimize(loss, v1.train.get_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=of_mode)


def data():
    features = {"x": X, "country": COUNTRY, "user": USER}
    return tf.data.Dataset.from_tensor_slices((features, Y)).batch(BATCH)


def of(field, tmp_path):
    return Estimator(model_fn, str(tmp_path), RunConfig(job={"eval_by": field}))


@pytest.mark.parametrize("steps", [None, 5])
def test_the_metrics_of_a_part_are_those_of_its_examples_and_are_written_as_events(tmp_path, steps):
    trained = of("country", tmp_path)
    found = trained.evaluate(data, steps=steps)
    taken = np.arange(COUNT) < (COUNT if steps is None else steps * BATCH)
    plain = Estimator(model_fn, str(tmp_path))
    for country in np.unique(COUNTRY[taken]):
        rows = taken & (country == COUNTRY)

        def part(rows=rows):
            features = {"x": X[rows], "country": COUNTRY[rows], "user": USER[rows]}
            return tf.data.Dataset.from_tensor_slices((features, Y[rows])).batch(512)

        expected = plain.evaluate(part)
        name = f"/country={country}".replace("\n", "\\n")
        assert found[f"examples{name}"] == rows.sum()
        for metric in ("loss", "gauc", "mean"):
            assert found[metric + name] == pytest.approx(expected[metric], rel=1e-6), metric
        assert [found[f"each/{i}{name}"] for i in (0, 1)] == pytest.approx(expected["each"].tolist(), rel=1e-6)
    assert not any("others" in name for name in found)
    assert events_in(tmp_path / "eval")["loss/country=de"][0] == (0, pytest.approx(found["loss/country=de"]))


def test_what_cannot_divide_is_refused_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"^eval_by=contry \(from the RunConfig's job\): there is no such feature"):
        of("contry", tmp_path).evaluate(data)
    with pytest.raises(ConfigError, match=r"needs an input_fn that returns a tf\.data\.Dataset, but it returns a t"):
        of("country", tmp_path).evaluate(lambda: ({"x": X, "country": COUNTRY, "user": USER}, Y), steps=1)
