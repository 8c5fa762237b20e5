"""The names of `tf.contrib.learn.datasets`: data by name, and tables of numbers from CSV files.

    mnist = load_dataset("mnist")
    train = load_csv_with_header("iris_training.csv", target_dtype=np.int32, features_dtype=np.float32)

Nothing is downloaded.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import mnist_input

__all__ = ["Dataset", "Datasets", "load_csv_with_header", "load_csv_without_header", "maybe_download"]


class Dataset(NamedTuple):
    """Features and their targets."""

    data: Any
    target: Any


class Datasets(NamedTuple):
    """Data of training, validation and tests."""

    train: Any
    validation: Any
    test: Any


def load_csv_with_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Returns the numbers of a CSV file whose first line has the number of rows and of features.

    Args:
      filename: its path.
      target_dtype: of the returned `target`, one column.
      features_dtype: of the returned `data`, all other columns.
      target_column: the place of the target in a row.
    """
    with v1.gfile.Open(filename) as file:
        lines = csv.reader(file)
        next(lines)
        return _table(lines, target_dtype, features_dtype, target_column)


def load_csv_without_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Returns the numbers of a CSV file; the arguments are those of `load_csv_with_header`."""
    with v1.gfile.Open(filename) as file:
        return _table(csv.reader(file), target_dtype, features_dtype, target_column)


def _table(lines: Iterable[list[str]], target_dtype: Any, features_dtype: Any, target_column: int) -> Dataset:
    rows = [list(line) for line in lines if line]
    target = np.array([row.pop(target_column) for row in rows], dtype=target_dtype)
    return Dataset(np.array(rows, dtype=features_dtype), target)


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """Returns the path of a file that is there; nothing is downloaded.

    Args:
      filename: its name.
      work_directory: its folder.
      source_url: where to get it.

    Raises:
      FileNotFoundError: it is not there.
    """
    path = f"{work_directory}/{filename}"
    if not v1.gfile.Exists(path):
        raise FileNotFoundError(f"{path} is not there, and nothing is downloaded: get it from {source_url}")
    return path


def _refuses(name: str, instead: str) -> Callable[..., Any]:
    def load(*arguments: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(f"the data set {name!r} of tf.contrib.learn is not supported: {instead}.")

    return load


def _load_mnist(train_dir: str = "MNIST-data") -> Any:
    return mnist_input.read_data_sets(train_dir)


DATASETS: dict[str, Callable[..., Any]] = {
    "boston": _refuses("boston", "read its file with load_csv_with_header"),
    "dbpedia": _refuses("dbpedia", "read its files with tf.data.TextLineDataset"),
    "iris": _refuses("iris", "use sklearn.datasets.load_iris"),
    "mnist": _load_mnist,
}
"""The functions that load data, by name."""


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """Returns the data of a name.

    Args:
      name: one of DATASETS.
      size: not used, as the next.
      test_with_fake_data: not used.

    Raises:
      ValueError: there is no such name.
      NotImplementedError: ps_train does not have the data.
    """
    if name not in DATASETS:
        raise ValueError(f"name of dataset is not found: {name!r}; use one of {', '.join(sorted(DATASETS))}")
    return DATASETS[name]()
