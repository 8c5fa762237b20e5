"""Batches of a `tf.data.Dataset`, which are its elements."""

from __future__ import annotations

import functools
import os
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data.sent.dataset_graph import (
    dataset_graph,
    eager_dataset,
    imported_dataset,
    python_calls,
    spec_of_batches,
)
from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.part import Part
from ps_train.data.sent.source import Source

_GRAPH = "dataset.graph"


class DatasetSource(Source):
    """Batches of an eager dataset.

    Args:
      dataset: its elements are batches.
      seed: of the shuffles that have none.
    """

    kind = "tf.data.Dataset"

    def __init__(self, dataset: tf.data.Dataset, seed: int) -> None:
        self._dataset, self._seed = dataset, seed
        self.element_spec = spec_of_batches(self.kind, dataset.element_spec)

    @functools.cached_property
    def graph(self) -> Any:
        """The dataset's GraphDef."""
        return eagerly(lambda: dataset_graph(self._dataset, self._seed))

    def cardinality(self) -> int:
        """Returns the number of batches in one pass over the data."""
        return eagerly(lambda: int(self._dataset.cardinality()))

    def counted(self) -> int:
        """Returns the number of batches in one pass over the data."""
        return eagerly(lambda: sum(1 for _ in self._dataset))

    def first_batch(self) -> Any:
        """Returns an eager batch."""

        def first() -> Any:
            for batch in self._dataset.take(1):
                return batch
            raise DataError(f"the {self.kind} has no elements, so there is nothing to train on: give at least one.")

        return eagerly(first)

    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns the endless pairs of a part's batches and their examples."""
        return part.of(imported_dataset(self.graph, self._dataset.element_spec).repeat())

    def write(self, directory: str) -> Any:
        """Writes the dataset's graph; raises DataError if it calls Python."""
        if python_calls(self.graph):
            raise DataError(
                "the tf.data.Dataset calls Python (py_function, numpy_function or from_generator), which other "
                "processes do not have: give fit a function without arguments that returns the dataset."
            )
        with open(os.path.join(directory, _GRAPH), "wb") as file:
            file.write(self.graph.SerializeToString())
        return self._dataset.element_spec, self._seed

    @classmethod
    def read(cls, directory: str, state: Any) -> DatasetSource:
        """Returns the source of a written graph."""
        element_spec, seed = state
        with open(os.path.join(directory, _GRAPH), "rb") as file:
            graph = v1.GraphDef.FromString(file.read())
        source = cls(eagerly(lambda: eager_dataset(graph, element_spec)), seed)
        source.graph = graph
        return source
