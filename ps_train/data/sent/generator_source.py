"""Batches of Python generators, which are read from the beginning in each process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.part import Part, mapped
from ps_train.data.sent.python_batches import PEEKED, arrays_of, eager_batch, packed_as, spec_of, specs_in
from ps_train.data.sent.source import UNKNOWN, Source
from ps_train.data.stream import pipeline_error


class GeneratorSource(Source):
    """Batches of generators that a function makes, one for each pass.

    Args:
      make: makes a generator.
    """

    kind = "generator"

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make
        self._first = list(itertools.islice(make(), PEEKED))
        self.element_spec = spec_of(self.kind, self._first)

    def cardinality(self) -> int:
        """Returns UNKNOWN."""
        return int(UNKNOWN)

    def counted(self) -> int:
        """Returns the number of batches of a generator."""
        return sum(1 for _ in self._make())

    def first_batch(self) -> Any:
        """Returns an eager batch."""
        return eagerly(lambda: eager_batch(self.kind, self._first[0], self.element_spec))

    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns the endless pairs of a part's batches and their examples."""

        def endless() -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
            for passed in itertools.count():
                is_empty = True
                for batch in self._make():
                    is_empty = False
                    yield tuple(arrays_of(self.kind, batch, self.element_spec))
                if is_empty:
                    raise pipeline_error(self._no_more(passed))

        specs = tuple(specs_in(self.element_spec))
        batches = tf.data.Dataset.from_generator(endless, output_signature=specs)
        return part.of(mapped(batches, lambda tensors: packed_as(self.element_spec, tensors)))

    def _no_more(self, passed: int) -> str:
        return f"the {self.kind} of pass {passed + 1} over the data has no batches: make a new one in every call."

    def write(self, directory: str) -> Any:
        """Raises DataError: the function that makes the generators is what can be sent."""
        raise DataError(
            f"x is a {self.kind}, which other processes cannot read: give fit a function without arguments that "
            "makes it, such as the generator function itself."
        )

    @classmethod
    def read(cls, directory: str, state: Any) -> GeneratorSource:
        """Raises DataError: there are no files of a generator."""
        raise DataError(f"a {cls.kind} has no files in {directory}: give fit a function that makes it.")


class OneGenerator(GeneratorSource):
    """Batches of one generator, which is read once.

    Args:
      generator: the generator, or another iterator.
    """

    def __init__(self, generator: Iterator[Any]) -> None:
        first = list(itertools.islice(generator, PEEKED))
        left = itertools.chain(first, generator)
        makes = iter([first])  # the first call is a look at it
        super().__init__(lambda: iter(next(makes, left)))

    def counted(self) -> int:
        """Raises ConfigError: it would be used up."""
        raise ConfigError(
            "the number of batches of a generator is not known: give fit steps_per_epoch=, or a function without "
            "arguments that makes the generator."
        )

    def _no_more(self, passed: int) -> str:
        return (
            "the generator ended before the last epoch: let it give epochs * steps_per_epoch batches, or give fit a "
            "function without arguments that makes it."
        )
