"""Predictions of a SavedModel for arrays and examples, against numpy."""

from __future__ import annotations

import contextlib
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train.base.errors import ConfigError, DataError
from ps_train.saved.serving.exported import Exported
from tests.support.saved.exported_models import score, write_export

PRICE, IDS, NAME = [1.5, 2.0, -1.0], [[1, 2], [], [3]], ["a", "", "ccc"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_export(tmp_path_factory.mktemp("models") / "export" / "7")


def test_arrays_lists_and_tensors_give_what_numpy_gives(path: str) -> None:
    expected = score(PRICE, IDS, NAME)
    ragged = tf.ragged.constant(IDS, dtype=tf.int64)
    kinds = [
        (PRICE, IDS, NAME),
        (np.array(PRICE), ragged, np.array(NAME)),
        (tf.constant(PRICE), ragged, [b"a", b"", b"ccc"]),
    ]
    for price, ids, name in kinds:
        found = ps_train.predict(
            str(pathlib.Path(path).parent), {"price": price, "ids": ids, "name": name}, batch_size=2
        )
        np.testing.assert_allclose(found["score"], expected)
        np.testing.assert_allclose(found["pair"], np.stack([expected, -expected], 1))


def test_a_loaded_model_serves_many_calls_examples_and_no_rows(path: str) -> None:
    exported = Exported(path)
    assert [(name, feature.kind) for name, feature in exported.features.items()] == [
        ("ids", "ragged"), ("name", "dense"), ("price", "dense")
    ]  # fmt: skip
    features = tf.train.Features()
    features.feature["price"].float_list.value.append(4)
    features.feature["ids"].int64_list.value.extend([5, 6])
    features.feature["name"].bytes_list.value.append(b"xy")
    serialized = tf.train.Example(features=features).SerializeToString()
    for _ in range(2):
        found = exported.predict_examples([serialized, serialized])["score"]
        np.testing.assert_allclose(found, score([4, 4], [[5, 6]] * 2, ["xy"] * 2))
    empty = ps_train.predict(exported, {"price": [], "ids": [], "name": []})
    assert empty["score"].shape == (0,) and empty["pair"].shape == (0, 2)
    exported.close()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"price": None}, "there is no price, which the model takes: the data have ids, name"),
        ({"price": ["a", "b", "c"]}, "price has values of <U1: the model takes float32 [rows]"),
        ({"price": [[1, 2]] * 3}, "price has rows of shape [2]: the model takes float32 [rows]"),
        ({"price": [1.0]}, "differ in their numbers of rows"),
        ({"ids": [[1.5], [], []]}, "ids has values of float64: the model takes lists of int64"),
        ({"ids": [1, 2, 3]}, "ids is not one list a row"),
        ({"name": [1, 2, 3]}, "name has 1 in row 0: the model takes strings [rows]"),
        ({"ids": np.array([[2**63]] * 3, np.uint64)}, "ids has values outside int64"),
    ],
)
def test_a_value_that_does_not_fit_is_told(path: str, changed: dict, words: str) -> None:
    arrays = {"price": PRICE, "ids": IDS, "name": NAME, **changed}
    with pytest.raises(DataError) as caught:
        ps_train.predict(path, {name: value for name, value in arrays.items() if value is not None})
    assert words in str(caught.value)


def test_what_is_not_an_export_is_told(path: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"has no saved_model.pb"):
        Exported(str(tmp_path))
    with pytest.raises(ConfigError, match=r"signature=other is not in .*: it has examples, serving_default"):
        Exported(path, "other")
    (tmp_path / "saved_model.pb").write_bytes(b"no graph")
    with pytest.raises(ConfigError, match=r"cannot be loaded"):
        Exported(str(tmp_path))
    with pytest.raises(DataError, match=r"one array is given: the model takes features by name"):
        ps_train.predict(path, [1.0])


def test_a_signature_with_a_fixed_batch_predicts_any_number_of_rows(tmp_path: pathlib.Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        price, name = v1.placeholder(tf.float32, [4, 2]), v1.placeholder(tf.string, [4])
        serialized = v1.placeholder(tf.string, [4])
        outputs = {"y": tf.reduce_sum(price, 1) + tf.cast(tf.strings.length(name), tf.float32)}
        predict = v1.saved_model.predict_signature_def
        signatures = {
            "serving_default": predict({"price": price, "name": name}, outputs),
            "examples": predict({"examples": serialized}, {"length": tf.strings.length(serialized)}),
        }
        builder = v1.saved_model.Builder(str(tmp_path / "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    with contextlib.closing(Exported(str(tmp_path))) as exported:
        for count in (0, 1, 4, 5, 11):
            prices, names = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2), ["a" * n for n in range(count)]
            found = exported.predict({"price": prices, "name": names}, batch_size=3)["y"]
            np.testing.assert_array_equal(found, prices.sum(1) + np.arange(count))
            assert exported.predict_examples(names)["length"].tolist() == list(range(count))
