"""Keys of graph collections that stay in their process.

    _INPUTS = UnsavedKey("inputs")
    graph.add_to_collection(_INPUTS, ("feature age", tensor))

TensorFlow writes all collections whose key is a text into a MetaGraph, and logs a warning for values of other types.
"""

from __future__ import annotations


class UnsavedKey:
    """A key of a collection that TensorFlow leaves out of MetaGraphs.

    Args:
      name: shown by `repr`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"UnsavedKey({self._name!r})"
