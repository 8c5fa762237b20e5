"""The interface of a kind of data: `Source`."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow as tf

from ps_train.data.sent.part import Part
from ps_train.data.split import INFINITE, UNKNOWN

__all__ = ["INFINITE", "UNKNOWN", "Source"]


class Source(abc.ABC):
    """Batches in an order that all processes agree on.

    Attributes:
      element_spec: nested `tf.TensorSpec` of a batch, whose first dimension is None; None where a batch has None.
      kind: the kind of data in errors and log lines, such as "arrays".
    """

    element_spec: Any
    kind: str

    @abc.abstractmethod
    def cardinality(self) -> int:
        """Returns the number of batches in one pass over the data, or UNKNOWN or INFINITE."""

    @abc.abstractmethod
    def counted(self) -> int:
        """Returns the number of batches in one pass by reading all of them.

        Raises:
          ConfigError: the data can be read once only.
        """

    @abc.abstractmethod
    def first_batch(self) -> Any:
        """Returns an eager batch; the batches of a training are not changed by it."""

    @abc.abstractmethod
    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns an endless dataset of the current graph: pairs of a part's batch and its examples, int32 scalar."""

    @abc.abstractmethod
    def write(self, directory: str) -> Any:
        """Writes files into a directory, and returns a value that can be pickled, from which `read` goes on.

        Raises:
          DataError: the data cannot be read in another process.
        """

    def agree(self, element_spec: Any) -> None:
        """Sets the spec to that of the process that calls `fit`, whose first batches may have been others."""
        self.element_spec = element_spec

    @classmethod
    @abc.abstractmethod
    def read(cls, directory: str, state: Any) -> Source:
        """Returns the source that `write` has written."""
