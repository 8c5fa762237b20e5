"""The error for data that a model's `data` returned and that the input cannot read, with the line that converts them.

    raise wrong_data(frame)     # ... return ps_train.Arrays(df.drop(columns="label").to_dict("series"), df["label"])

Other libraries are known by the names of their types: none of them is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.base.user_code import shown

ALLOWED = (
    "return ps_train.Arrays, a source such as ps_train.TFRecords, ps_train.Parquet or ps_train.Kafka, a "
    "tf.data.Dataset of single (features, labels) examples, or a Stream"
)
FRAME = 'ps_train.Arrays(df.drop(columns="label").to_dict("series"), df["label"])'
LOADER = "ps_train.Arrays(*map(np.stack, zip(*loader.dataset)))"
ROWS = "ps_train.Arrays({name: [row[name] for row in rows] for name in names}, [row['label'] for row in rows])"
PAIRS = "ps_train.Arrays(*map(np.stack, zip(*pairs)))"
GENERATOR = "tf.data.Dataset.from_generator(make_examples, output_signature=(tf.TensorSpec(...), tf.TensorSpec(...)))"


def wrong_data(data: Any) -> ModelError:
    """Makes the error for a value that is of none of the allowed types."""
    help_ = _conversion(data)
    return ModelError(f"data() returned {shown(data)}: {ALLOWED}{f'; {help_}' if help_ else ''}.")


def _conversion(data: Any) -> str:
    """Returns what converts the data; "" where nothing is known of their type."""
    library, name = type(data).__module__.partition(".")[0], type(data).__name__
    if name == "DataFrame":
        use = FRAME if library != "polars" else 'ps_train.Arrays(df.drop("label").to_dict(), df["label"])'
        return f"for a table with a column label: {use}"
    if name == "Series":
        return "a Series is one column: ps_train.Arrays(features, labels) takes one for the labels and a dict of others"
    if library == "torch":
        if name == "Tensor":
            return "for tensors: ps_train.Arrays(features.numpy(force=True), labels.numpy(force=True))"
        return f"for a DataLoader: {LOADER}"
    if library == "scipy":
        return "for a sparse matrix: ps_train.Arrays(matrix.toarray().astype(np.float32), labels)"
    if isinstance(data, np.ndarray | tf.Tensor):
        return "with the labels: ps_train.Arrays(features, labels)"
    if isinstance(data, Mapping):
        return "a dict of arrays is the features of ps_train.Arrays(features, labels)"
    if isinstance(data, str | os.PathLike):
        return (
            "for text: ps_train.TextLines(files, parse); for TFRecord files: ps_train.TFRecords(files, parse); for "
            "Parquet files: ps_train.Parquet(files, columns, label)"
        )
    if isinstance(data, tuple) and len(data) == 2:
        return "for (features, labels): ps_train.Arrays(*data)"
    if isinstance(data, list | tuple) and data:
        return _of_rows(data[0])
    if isinstance(data, Iterator):
        return f"for a function that yields (features, labels): {GENERATOR}"
    return ""


def _of_rows(first: Any) -> str:
    if isinstance(first, Mapping):
        return f"for rows with a label: {ROWS}"
    if isinstance(first, tuple | list) and len(first) == 2:
        return f"for (features, labels) pairs: {PAIRS}"
    return "with the labels: ps_train.Arrays(features, labels)"
