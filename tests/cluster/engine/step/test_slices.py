"""Metrics of parts of the test data (--eval_by): those of these examples alone, for any number of shards."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError
from ps_train.config.slice_names import split_slices
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import DataSource
from ps_train.engine.step import slices as module
from ps_train.engine.step.evaluation import find_slices, metric_values, run_batches
from ps_train.engine.step.slices import Slices, count_values, slice_keys
from ps_train.modeling.ranking import Ranked
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Divided, UsesAnotherTensor


def expected(model: Divided, of_slice: np.ndarray) -> dict[str, float]:
    data = model.data("test", "")
    x, labels, users = (one[of_slice] for one in (data.features["x"], data.labels, data.features["user"]))
    area = Ranked(labels, x, users).auc()
    return {
        "examples": float(of_slice.sum()),
        "mean": float(x.mean(dtype=float)),
        "largest": float(x.max()),
        "grouped_auc": 0.0 if np.isnan(area) else area,
    }


@pytest.mark.long
def test_the_metrics_of_a_slice_are_those_of_its_examples_in_all_shards(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", 3)
    model = Divided(1500)
    cluster = InProcessCluster(model, 1, 2)
    cluster.start()
    found = find_slices(DataSource(lambda: model.data("test", "")), "country")
    assert found == Slices("country", ("nowhere", "fr", "de"))
    for index in (1, 2):
        session, graph = cluster.scoring(DataShard(index, 3), worker=1, slices=found)
        run_batches(session, graph)
        session.run(graph.metric_sums.publish)
    session, graph = cluster.scoring(DataShard(0, 3), slices=found)
    run_batches(session, graph)
    sums = graph.metric_sums
    session.run(sums.load, sums.feeds(session.run([sums.own, *sums.of_shard[1:]])))
    whole, slices = split_slices(metric_values(session, graph), "country")
    names = model.data("test", "").features["country"]
    parts = {name: names == name for name in ("nowhere", "fr", "de")}
    parts["(others)"] = ~np.isin(names, list(parts))
    everything = expected(model, np.ones(1500, bool))
    del everything["examples"]
    assert whole == pytest.approx(everything, rel=1e-5, abs=1e-6)
    assert list(slices) == list(parts)
    for name, of_slice in parts.items():
        assert slices[name] == pytest.approx(expected(model, of_slice), rel=1e-5, abs=1e-6), name


@pytest.mark.long
@pytest.mark.parametrize(("field", "names"), [("kind", ["0", "1", "2", "3", "4"]), ("column", ["false", "true"])])
def test_numbers_and_truth_values_divide_too(field: str, names: list[str]) -> None:
    model = Divided(700)
    cluster = InProcessCluster(model, 1, 1)
    cluster.start()
    found = find_slices(DataSource(lambda: model.data("test", "")), field)
    assert sorted(found.values) == names
    session, graph = cluster.scoring(WHOLE, slices=found)
    run_batches(session, graph)
    _, slices = split_slices(metric_values(session, graph), field)
    values = model.data("test", "").features[field].ravel()
    assert list(slices) == list(found.values), "there are no others"
    for name, of_slice in slices.items():
        assert of_slice == pytest.approx(
            expected(model, np.char.lower(values.astype(str)) == name), rel=1e-5, abs=1e-6
        ), name


def test_a_metric_of_another_tensor_is_refused() -> None:
    cluster = InProcessCluster(UsesAnotherTensor(100), 1, 1)
    cluster.start()
    with pytest.raises(ModelError, match=r"eval_by=country: metric mean uses a tensor that is not among the arg"):
        cluster.scoring(WHOLE, slices=Slices("country", ("fr",)))


REFUSED = {
    "contry": r"there is no such feature; use one of country",
    "zzz": r"there is no such feature; use one of bag, country, deep/part, x\.",
    "x": r"it is a feature of float32 and shape \(None, 3\); use a feature with one whole number",
    "bag": r"it is a RaggedTensor of int64",
}


@pytest.mark.parametrize("field", REFUSED)
def test_a_field_that_cannot_divide_is_named_with_what_can(field: str) -> None:
    with tf.Graph().as_default():
        features = {
            "x": tf.compat.v1.placeholder(tf.float32, [None, 3]),
            "country": tf.compat.v1.placeholder(tf.string, [None]),
            "bag": tf.RaggedTensor.from_row_splits(tf.constant([1, 2], tf.int64), [0, 2]),
            "deep": {"part": tf.compat.v1.placeholder(tf.int32, [None, 1])},
        }
        assert slice_keys(features, "deep/part").dtype == tf.string
        with pytest.raises(ConfigError, match=f"^eval_by={field}: {REFUSED[field]}"):
            slice_keys(features, field)
        with pytest.raises(ConfigError, match="the features have no names"):
            slice_keys(features["x"], field)


def test_the_most_frequent_values_get_slices_of_their_own(monkeypatch) -> None:
    counts = count_values({b"a": 1}, np.array([b"b", b"\xff\n", b"b"], object))
    assert counts == {b"a": 1, b"b": 2, b"\xff\n": 1}
    found = Slices.of_counts("f", counts)
    assert found.keys() == [b"b", b"a", b"\xff\n"] and found.names() == ["b", "a", "\\xff\\n", "(others)"]
    monkeypatch.setattr(module, "_MOST_COUNTED", 2)
    assert count_values(counts, np.array([b"a", b"a"], object)) == {b"a": 3}
