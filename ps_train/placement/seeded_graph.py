"""A graph in which all random operations of a model draw different numbers, also those within functions.

    with SeededGraph(7).as_default(), distinct_seeds():
        model.forward(...)

TensorFlow gives an operation without a seed one that is made of the graph's seed and of its place in the graph, or in
its function: two branches that are built alike would draw the same numbers.  Here every operation and every function
is given another seed of the graph.  They depend on the first one and on the order in which the model is built.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.pipeline import derived_seed


class SeededGraph(tf.Graph):
    """A `tf.Graph`.

    Args:
      seed: of the graph; outside of `distinct_seeds` all operations have it.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._first, self._given, self.is_distinct = seed, 0, False

    @property
    def seed(self) -> int:
        """The seed for the next operation or function."""
        if not self.is_distinct:
            return self._first
        self._given += 1
        return derived_seed(self._first, self._given)

    @seed.setter
    def seed(self, seed: int) -> None:
        """What `tf.compat.v1.set_random_seed` does."""
        self._first = seed


@contextlib.contextmanager
def distinct_seeds() -> Iterator[None]:
    """Within the body, each random operation has a seed of its own, where the present graph is a SeededGraph."""
    graph = v1.get_default_graph()
    if not isinstance(graph, SeededGraph):
        yield
        return
    before, graph.is_distinct = graph.is_distinct, True
    try:
        yield
    finally:
        graph.is_distinct = before
