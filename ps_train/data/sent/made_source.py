"""Batches of data that a function of the user's makes, in each process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_train.base.user_code import user_code
from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.packed import packed, unpacked
from ps_train.data.sent.part import Part
from ps_train.data.sent.source import Source

_FUNCTION = "function.pickle"


class MadeSource(Source):
    """Batches of what a function returns; it is called eagerly.

    Args:
      make: the function, without arguments.
      source_of: makes the source of the data that the function returns, and of the function.
    """

    def __init__(self, make: Callable[[], Any], source_of: Callable[[Any, Callable[[], Any]], Source]) -> None:
        self._make, self._source_of = make, source_of
        name = getattr(make, "__name__", type(make).__name__)

        def called() -> Any:
            with user_code(f"{name}() that makes the data"):
                return make()

        self._made = eagerly(lambda: source_of(called(), called))
        self.kind, self.element_spec = self._made.kind, self._made.element_spec

    def agree(self, element_spec: Any) -> None:
        """Sets the spec of batches."""
        super().agree(element_spec)
        self._made.agree(element_spec)

    def cardinality(self) -> int:
        """Returns that of the made data."""
        return self._made.cardinality()

    def counted(self) -> int:
        """Returns that of the made data."""
        return eagerly(self._made.counted)

    def first_batch(self) -> Any:
        """Returns that of the made data."""
        return self._made.first_batch()

    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns those of the made data."""
        return self._made.batches(part)

    def write(self, directory: str) -> Any:
        """Writes the pickled function; raises DataError if it cannot be pickled."""
        with open(os.path.join(directory, _FUNCTION), "wb") as file:
            file.write(packed("x, a function", self._make))
        return self._source_of

    @classmethod
    def read(cls, directory: str, state: Any) -> MadeSource:
        """Returns the source of a pickled function."""
        with open(os.path.join(directory, _FUNCTION), "rb") as file:
            return cls(unpacked(file.read()), state)
