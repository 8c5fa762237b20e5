"""Parquet files of numbered rows, and a model of them whose values say how often each row was used."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from ps_train import Parquet
from tests.support.data.recording import Recording


def table(numbers: Sequence[int]):
    """Rows with a number, as many ids as its remainder by 3, each the number, and its text."""
    import pyarrow as pa

    ids = pa.array([[number] * (number % 3) for number in numbers], pa.list_(pa.int64()))
    texts = pa.array([str(number) for number in numbers], pa.string())
    return pa.table({"ids": ids, "number": pa.array(numbers, pa.int64()), "text": texts})


def write_rows(path: pathlib.Path, first: int, stop: int, group: int = 100) -> None:
    """Writes the rows of some numbers, so many in a row group."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(range(first, stop)), str(path), row_group_size=group)


class RecordingRows(Recording):
    """The numbers of the files in the data directory, which are those up to `count`."""

    def data(self, split, data_dir):
        return Parquet(data_dir, ["number"], parse=_examples) if split == "train" else None


def _examples(columns):
    import tensorflow as tf

    numbers = columns["number"]
    return numbers, tf.zeros_like(numbers, np.float32)
