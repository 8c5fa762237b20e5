"""The number of replicas or steps that an update mode goes on without."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf


class WaitLimit(NamedTuple):
    """The number: of replicas in `sync`, of steps in `bounded`.

    Attributes:
      most: the largest one.
      value: returns the present one, an int or an int64 scalar that is read on ps 0 where it is used.
    """

    most: int
    value: Callable[[], int | tf.Tensor]

    @classmethod
    def fixed(cls, number: int) -> WaitLimit:
        """Returns the limit of a number that never changes."""
        return cls(number, lambda: number)
