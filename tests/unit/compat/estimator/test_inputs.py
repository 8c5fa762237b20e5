"""Input functions of arrays and data frames read every example as often as asked, in batches of the right size."""

from __future__ import annotations

import collections
import contextlib
import inspect
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.estimator.inputs import numpy_input_fn, pandas_input_fn

X = np.arange(10, dtype=np.float32).reshape(5, 2)
Y = np.arange(5)
NAMES = np.array(["a", "bb", "c", "dd", "é"])


def read(input_fn: Any, most: int = 100) -> list[Any]:
    """The first batches of an input_fn, in a graph of their own."""
    with tf.Graph().as_default(), v1.Session() as session:
        batch, found = input_fn(), []
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while len(found) < most:
                found.append(session.run(batch))
        return found


def test_arrays_come_in_order():
    (first, last) = read(numpy_input_fn(X, Y, batch_size=3, shuffle=False))
    assert first[0].tolist() == X[:3].tolist() and first[1].tolist() == [0, 1, 2]
    assert last[0].tolist() == X[3:].tolist() and last[1].tolist() == [3, 4]
    assert first[0].dtype == np.float32 and first[1].dtype == np.int64


def test_names_stay_and_texts_are_bytes():
    input_fn = numpy_input_fn({"x": X, "name": NAMES}, {"y": Y}, shuffle=False)
    (((features, labels)),) = read(input_fn)
    assert sorted(features) == ["name", "x"] and features["name"].tolist()[-1] == "é".encode()
    assert labels["y"].tolist() == Y.tolist()


def test_features_may_come_without_labels():
    (batch,) = read(numpy_input_fn({"x": X}, shuffle=False))
    assert batch["x"].tolist() == X.tolist()


def test_epochs_follow_each_other_within_a_batch():
    batches = read(numpy_input_fn(X, Y, batch_size=4, num_epochs=2, shuffle=False))
    assert [labels.tolist() for _, labels in batches] == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4]]
    endless = read(numpy_input_fn(X, Y, batch_size=4, num_epochs=None, shuffle=False), most=7)
    assert [len(labels) for _, labels in endless] == [4] * 7


def test_a_random_order_has_every_example_once():
    orders = set()
    for _ in range(20):
        (batch,) = read(numpy_input_fn(X, Y, shuffle=True))
        assert collections.Counter(batch[1].tolist()) == collections.Counter(Y.tolist())
        assert batch[0].tolist() == X[batch[1]].tolist()
        orders.add(tuple(batch[1]))
    assert len(orders) > 1


def test_shapes_are_known():
    with tf.Graph().as_default():
        features, labels = numpy_input_fn(X, Y, shuffle=False)()
    assert features.shape.as_list() == [None, 2] and labels.shape.as_list() == [None]


def test_arrays_are_not_part_of_the_graph():
    with tf.Graph().as_default() as graph:
        numpy_input_fn(np.ones([100_000]), shuffle=False)()
        assert graph.as_graph_def().ByteSize() < 100_000


@pytest.mark.parametrize(
    ("x", "y", "error", "text"),
    [
        ([1, 2], None, TypeError, "a dict or an array, not list"),
        ({}, None, ValueError, "x is empty"),
        (np.ones([0]), None, ValueError, "x is empty"),
        ({"x": X}, {}, ValueError, "y is an empty dict"),
        ({"x": X}, {"x": Y}, ValueError, r"\['x'\] are names in x and in y"),
        ({"x": X}, Y[:3], ValueError, "the same length"),
        ({"x": X, "z": Y[:3]}, None, ValueError, "the same length"),
    ],
)
def test_wrong_arrays_are_refused(x, y, error, text):
    with pytest.raises(error, match=text):
        numpy_input_fn(x, y, shuffle=False)


@pytest.mark.parametrize("shuffle", [None, 1, "yes"])
def test_shuffle_must_be_given(shuffle):
    with pytest.raises(ValueError, match="must be True"):
        numpy_input_fn(X, shuffle=shuffle)


def test_pandas_input_fn_has_its_classic_signature():
    names = ["x", "y", "batch_size", "num_epochs", "shuffle", "queue_capacity", "num_threads", "target_column"]
    assert list(inspect.signature(pandas_input_fn).parameters) == names


def test_without_pandas_it_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TypeError, match="needs pandas, which is not installed"):
        pandas_input_fn(None, shuffle=False)


class TestPandas:
    """Data frames, where pandas is installed."""

    @pytest.fixture
    def frame(self) -> Any:
        pandas = pytest.importorskip("pandas", reason="pandas is not installed")
        return pandas.DataFrame({"a": np.arange(5) * 0.5, "name": NAMES.astype(object)}, index=range(10, 15))

    def test_features_are_the_columns(self, frame):
        (batch,) = read(pandas_input_fn(frame, shuffle=False))
        assert batch["a"].tolist() == [0, 0.5, 1, 1.5, 2] and batch["name"].tolist()[1] == b"bb"

    def test_labels_are_a_series_or_a_frame(self, frame):
        _, labels = read(pandas_input_fn(frame, frame["a"] * 2, shuffle=False))[0]
        assert labels.tolist() == [0, 1, 2, 3, 4]
        _, labels = read(pandas_input_fn(frame, frame[["a"]] * 2, 2, shuffle=False))[1]
        assert labels["a"].tolist() == [2, 3]

    def test_wrong_frames_are_refused(self, frame):
        with pytest.raises(ValueError, match="target_column=a is a column"):
            pandas_input_fn(frame, frame["a"], shuffle=False, target_column="a")
        with pytest.raises(ValueError, match="the indexes of x and y differ"):
            pandas_input_fn(frame, frame["a"].reset_index(), shuffle=False)
        with pytest.raises(TypeError, match="must be a text"):
            pandas_input_fn(frame, shuffle=False, target_column=3)
        with pytest.raises(ValueError, match="must be True"):
            pandas_input_fn(frame)
