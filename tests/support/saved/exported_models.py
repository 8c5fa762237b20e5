"""Small SavedModels for tests, written in milliseconds, that look like exports."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1


def score(price, ids, name, bias: float = 0.0) -> np.ndarray:
    """What the model below predicts, by numpy: for prices [n], lists of ids, and names of any kind of string."""
    return np.array(
        [2 * p + sum(10 * i for i in some) + len(str(n)) + bias for p, some, n in zip(price, ids, name, strict=True)],
        np.float32,
    )


def write_export(path: pathlib.Path, bias: float = 0.0) -> str:
    """Writes a SavedModel of a dense, a ragged and a string feature; outputs `score` [n] and `pair` [n, 2]."""
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, [None], "examples")
        parsed = tf.io.parse_example(
            serialized,
            {
                "price": tf.io.FixedLenFeature([], tf.float32),
                "ids": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
                "name": tf.io.FixedLenFeature([], tf.string),
            },
        )
        price = v1.placeholder_with_default(parsed["price"], [None])
        values = v1.placeholder_with_default(parsed["ids"].values, [None])
        splits = v1.placeholder_with_default(parsed["ids"].row_splits, [None])
        name = v1.placeholder_with_default(parsed["name"], [None])
        ids = tf.RaggedTensor.from_row_splits(tf.cast(values, tf.float32), splits)
        weight = v1.get_variable("weight", initializer=2.0)
        length = tf.cast(tf.strings.length(name), tf.float32)
        outputs = weight * price + 10.0 * tf.reduce_sum(ids, 1) + length + bias
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        inputs = {"price": price, "ids_values": values, "ids_row_splits": splits, "name": name}
        results = {"score": outputs, "pair": tf.stack([outputs, -outputs], 1)}
        predict = v1.saved_model.predict_signature_def
        signatures = {
            "serving_default": predict(inputs, results),
            "examples": predict({"examples": serialized}, results),
        }
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return str(path)


def write_table_export(path: pathlib.Path, table: np.ndarray, weight: float) -> str:
    """Writes a SavedModel that returns the rows of ids times a weight, as `rows` [n, dimension]."""
    with tf.Graph().as_default(), v1.Session() as session:
        ids = v1.placeholder(tf.int64, [None])
        rows = v1.get_variable("table", table.shape, use_resource=True)
        factor = v1.get_variable("weight", [], use_resource=True)
        outputs = {"rows": tf.gather(rows, ids) * factor}
        for variable, value in ((rows, table), (factor, weight)):
            variable.load(value, session)  # not a constant of the graph
        builder = v1.saved_model.Builder(str(path))
        signature = v1.saved_model.predict_signature_def({"id": ids}, outputs)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    return str(path)
