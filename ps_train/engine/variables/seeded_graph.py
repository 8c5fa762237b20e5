"""A graph in which all random operations of a model draw different numbers, in functions too.

    with SeededGraph(7).as_default(), distinct_seeds():
        model.forward(...)

TensorFlow makes the seed of an unseeded operation from the graph's seed and the operation's place in its function.
Two branches that are built alike would therefore draw the same numbers.  This graph has a different seed for every
operation and every function.  The seeds depend on the first seed and on the order in which the model is built.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.graph_names import NamedValuesGraph
from ps_train.data.pipeline import derived_seed


class SeededGraph(NamedValuesGraph):
    """A `tf.Graph`.

    Args:
      seed: the graph's seed; all operations have it outside of `distinct_seeds`.

    Attributes:
      values: name of each variable that a model was given to the object that stands for it there.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._first, self._count, self.is_distinct = seed, 0, False
        self.values: dict[str, Any] = {}

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """Returns the tensor or operation of a name, which may also be its name without the model's name scope.

        The name of a variable of the model is that of its value.
        """
        if isinstance(obj, str) and (variable := self.values.get(obj.removesuffix(":0"))) is not None:
            value = tf.convert_to_tensor(variable)
            return super().as_graph_element(value if ":" in obj else value.op, allow_tensor, allow_operation)
        try:
            return super().as_graph_element(obj, allow_tensor, allow_operation)
        except KeyError:
            if not isinstance(obj, str):
                raise
            return super().as_graph_element(f"model/{obj}", allow_tensor, allow_operation)

    @property
    def seed(self) -> int:
        """The seed for the next operation or function."""
        if not self.is_distinct:
            return self._first
        self._count += 1
        return derived_seed(self._first, self._count)

    @seed.setter
    def seed(self, seed: int) -> None:
        """Sets the first seed; `tf.compat.v1.set_random_seed` calls this."""
        self._first = seed


@contextlib.contextmanager
def distinct_seeds() -> Iterator[None]:
    """Gives each random operation of the body its own seed, if the default graph is a SeededGraph."""
    graph = v1.get_default_graph()
    if not isinstance(graph, SeededGraph):
        yield
        return
    before, graph.is_distinct = graph.is_distinct, True
    try:
        yield
    finally:
        graph.is_distinct = before
