"""Data of other types are refused with the line that converts them; the line works."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train.base.errors import DataError, ModelError
from ps_train.config.job import Job
from ps_train.data.arrays import Arrays
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import evaluation_batches, training_batches
from ps_train.data.shards.shard_readers import reader_of
from ps_train.data.wrong_data import ALLOWED, FRAME, GENERATOR, LOADER, PAIRS, ROWS, wrong_data

X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = np.array([0.0, 1.0, 1.0, 0.0], np.float32)
COLUMNS = {"a": X[:, 0], "b": X[:, 1]}


class DataFrame:
    """A stand-in for pandas' with what the line uses."""

    def __init__(self, columns):
        self._columns = columns

    def __getitem__(self, name):
        return self._columns[name]

    def drop(self, columns):
        return DataFrame({name: values for name, values in self._columns.items() if name != columns})

    def to_dict(self, kind):
        assert kind == "series"
        return self._columns


def of(library, name, base=object, **members):
    """Makes an object of a type that another library would have."""
    return type(name, (base,), {"__module__": library, **members})()


def frame():
    try:
        import pandas
    except ImportError:
        return DataFrame({**COLUMNS, "label": Y})
    return pandas.DataFrame({**COLUMNS, "label": Y})


def evaluated(expression, **names):
    return eval(expression, {"np": np, "tf": tf, "ps_train": ps_train, **names})


def assert_are(found, features):
    assert isinstance(found, Arrays)
    np.testing.assert_array_equal(found.labels, Y)
    expected = features if isinstance(features, dict) else {"features": features}
    named = dict(found.named()[:-1])
    assert named.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(named[name], values)


@pytest.mark.parametrize(
    ("expression", "names", "features"),
    [
        (FRAME, {"df": frame()}, COLUMNS),
        (LOADER, {"loader": of("torch.utils.data", "DataLoader", dataset=list(zip(X, Y, strict=True)))}, X),
        (
            ROWS,
            {
                "rows": [{"a": a, "b": b, "label": y} for (a, b, _), y in zip(X, Y, strict=True)],
                "names": ["a", "b"],
            },
            COLUMNS,
        ),
        (PAIRS, {"pairs": list(zip(X, Y, strict=True))}, X),
        ("ps_train.Arrays(*data)", {"data": (X, Y)}, X),
        ("ps_train.Arrays(*data)", {"data": (COLUMNS, Y)}, COLUMNS),
    ],
)
def test_the_line_converts_the_data(expression, names, features):
    data = next(iter(names.values()))
    assert expression in str(wrong_data(data))
    assert_are(evaluated(expression, **names), features)


def test_a_generator_becomes_a_dataset():
    examples = ((x, y) for x, y in zip(X, Y, strict=True))
    assert f"for a function that yields (features, labels): {GENERATOR}" in str(wrong_data(examples))
    specs = "tf.TensorSpec([3], tf.float32), tf.TensorSpec([], tf.float32)"
    with tf.Graph().as_default(), v1.Session() as session:
        expression = GENERATOR.replace("tf.TensorSpec(...), tf.TensorSpec(...)", specs)
        batches = evaluation_batches(evaluated(expression, make_examples=lambda: zip(X, Y, strict=True)), 4)
        session.run(batches.initializer)
        features, labels = session.run([batches.features, batches.labels])
    np.testing.assert_array_equal(features, X)
    np.testing.assert_array_equal(labels, Y)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "data() returned None: "),
        ([], "data() returned list []: "),
        (iter("ab"), "tf.data.Dataset.from_generator("),
        (X, "with the labels: ps_train.Arrays(features, labels)"),
        (tf.constant(X), "with the labels: ps_train.Arrays(features, labels)"),
        ([1, 2], "with the labels: ps_train.Arrays(features, labels)"),
        (COLUMNS, "a dict of arrays is the features of ps_train.Arrays(features, labels)"),
        ({"a": [1, 2]}, "a dict of arrays is the features of ps_train.Arrays(features, labels)"),
        ("train.csv", "for text: ps_train.TextLines(files, parse)"),
        (pathlib.Path("train.csv"), "for TFRecord files: ps_train.TFRecords(files, parse)"),
        (of("pandas", "Series"), "a Series is one column"),
        (of("polars.dataframe.frame", "DataFrame"), 'ps_train.Arrays(df.drop("label").to_dict(), df["label"])'),
        (of("torch", "Tensor"), "ps_train.Arrays(features.numpy(force=True), labels.numpy(force=True))"),
        (of("scipy.sparse._csr", "csr_matrix"), "ps_train.Arrays(matrix.toarray().astype(np.float32), labels)"),
    ],
)
@pytest.mark.parametrize("sharding", ["static", "dynamic"])
def test_every_type_is_refused_in_one_line(data, words, sharding):
    with pytest.raises(ModelError) as caught, tf.Graph().as_default():
        if sharding == "dynamic":
            reader_of(data, Job(model="m:M", sharding="dynamic"))
        training_batches(data, WHOLE, 4, 1, 0)
    text = str(caught.value)
    assert ALLOWED in text and words in text and "\n" not in text and len(text) < 450


def test_a_sparse_matrix_in_arrays_is_refused_with_its_conversion():
    with pytest.raises(DataError, match=r"features of Arrays is a sparse csr_matrix: give matrix.toarray\(\)"):
        Arrays(of("scipy.sparse._csr", "csr_matrix"), Y)
