"""Batches of a `tf.data.Dataset`, which are its elements."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.sent.dataset_graph import DatasetGraph, dataset_graph, imported_dataset, spec_of_batches
from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.part import Part
from ps_train.data.sent.scratch_session import first_element, number_of_elements
from ps_train.data.sent.source import Source


class DatasetSource(Source):
    """Batches of a dataset.

    Args:
      graph: that of the dataset, whose elements are batches.
      cardinality: number of its elements, or UNKNOWN or INFINITE.
      dataset: the eager dataset, in its own process; Python functions that the graph calls live as long as it does.
    """

    kind = "tf.data.Dataset"

    def __init__(self, graph: DatasetGraph, cardinality: int, dataset: tf.data.Dataset | None = None) -> None:
        self._graph, self._cardinality, self._kept = graph, cardinality, dataset
        self.element_spec = spec_of_batches(self.kind, graph.element_spec)

    @classmethod
    def of(cls, dataset: tf.data.Dataset, seed: int) -> DatasetSource:
        """Makes the source of an eager dataset.

        Args:
          dataset: the dataset.
          seed: of the shuffles that have none.

        Raises:
          DataError: its elements are single examples, or it has no graph.
        """
        spec_of_batches(cls.kind, dataset.element_spec)
        return eagerly(lambda: cls(dataset_graph(dataset, seed), int(dataset.cardinality()), dataset))

    def _dataset(self) -> tf.data.Dataset:
        return imported_dataset(self._graph)

    def cardinality(self) -> int:
        """Returns the number of batches in one pass over the data, or UNKNOWN or INFINITE."""
        return self._cardinality

    def counted(self) -> int:
        """Returns the number of batches in one pass over the data."""
        return number_of_elements(self._dataset)

    def first_batch(self) -> Any:
        """Returns an eager batch."""
        try:
            return first_element(self._dataset)
        except StopIteration:
            raise DataError(
                f"the {self.kind} has no batches, so there is nothing to train on: give at least one."
            ) from None

    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns the endless pairs of a part's batches and their examples."""
        return part.of(self._dataset().repeat())

    def write(self, directory: str) -> Any:
        """Writes the dataset's graph; raises DataError if it calls Python."""
        if self._graph.calls_python():
            raise DataError(
                "the tf.data.Dataset calls Python (py_function, numpy_function or from_generator), which other "
                "processes do not have: give fit a function without arguments that returns the dataset."
            )
        return self._graph.write(_path(directory)), self._cardinality

    @classmethod
    def read(cls, directory: str, state: Any) -> DatasetSource:
        """Returns the source of a written graph."""
        graph, cardinality = state
        return cls(DatasetGraph.read(_path(directory), graph), cardinality)


def _path(directory: str) -> str:
    return os.path.join(directory, "dataset")
