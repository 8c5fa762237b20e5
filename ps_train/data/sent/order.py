"""The order of examples and batches over the epochs: a function of a seed and of a number, without a state.

    order = Order(examples=1000, batch_size=64, shuffle=True, seed=7)
    order.rows(17)        # the rows of batch 17, which is the second one of the second epoch

So a process can begin anywhere, and all processes agree.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np


def permutation(count: int, seed: int, epoch: int) -> np.ndarray[Any, Any]:
    """Returns the numbers below `count` in the random order of an epoch, int64 [count]."""
    return np.random.default_rng((seed, epoch)).permutation(count)


class Order:
    """Rows of the batches.

    Args:
      examples: number of examples in an epoch.
      batch_size: examples in a batch; the last one of an epoch may be shorter.
      shuffle: True for a new order of all examples in each epoch, "batch" for a new order within each batch.
      seed: the orders depend on it.
    """

    def __init__(self, examples: int, batch_size: int, shuffle: bool | str, seed: int) -> None:
        self.examples, self.batch_size, self.shuffle, self.seed = examples, batch_size, shuffle, seed
        self.batches = -(-examples // batch_size)
        self._lock = threading.Lock()
        # Two epochs: a pipeline that reads ahead asks for the next one while a slower call is in the last one.
        self._epoch = functools.lru_cache(2)(functools.partial(permutation, examples, seed))

    def size(self, number: int) -> int:
        """Returns the number of examples in a batch."""
        first = number % self.batches * self.batch_size
        return min(self.batch_size, self.examples - first)

    def rows(self, number: int, first: int = 0, last: int | None = None) -> slice | np.ndarray[Any, Any]:
        """Returns the rows of a batch, or those of its piece from `first` to `last`, as an index of an array."""
        epoch, place = divmod(number, self.batches)
        begin, size = place * self.batch_size, self.size(number)
        last = size if last is None else last
        if self.shuffle == "batch":
            return begin + permutation(size, self.seed, number)[first:last]
        if not self.shuffle:
            return slice(begin + first, begin + last)
        with self._lock:  # one call makes the order of a new epoch, the others wait for it
            return self._epoch(epoch)[begin + first : begin + last]
