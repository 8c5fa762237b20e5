"""The cut of the data into shards, and the cursor that tells the used part of each shard.

    layout = ShardLayout(examples=1000, size=64, seed=7)
    layout.count                                    # 16 shards; the last one has 40 examples
    layout.indices(Assignment(3, progress_value(0, 32), progress_value(1)))   # the last 32 examples of shard 3, epoch 0

A shard is a run of positions in the order of an epoch.  A cursor is one whole number.  It combines the number of
completed epochs with the number of examples used in the current one.

The module is pure: it uses no TensorFlow and does not know the owners of shards.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

EPOCH = 1 << 40
"""A cursor is `epochs * EPOCH + examples`.  No shard has EPOCH examples."""

_MOST_BATCHES, _FEWEST_SHARDS = 16, 64


def progress_value(epochs: int, examples: int = 0) -> int:
    """Returns the cursor after `epochs` completed epochs and `examples` used examples of the current epoch."""
    return epochs * EPOCH + examples


@dataclasses.dataclass(frozen=True)
class Assignment:
    """A shard's examples from one cursor to another, all in the same epoch.

    Attributes:
      shard: index of the shard; negative for no shard.
      begin: cursor of the first example.
      end: cursor after the last example; the start of the next epoch means the end of the shard.
    """

    shard: int
    begin: int
    end: int

    @property
    def epoch(self) -> int:
        """The epoch of its examples, counted from 0."""
        return self.begin // EPOCH


@dataclasses.dataclass(frozen=True)
class ShardLayout:
    """The cut of a number of examples into shards of equal size.

    Args:
      examples: number of examples in the data.
      size: examples in a shard; the last shard may have fewer.
      seed: seed of each epoch's order; None keeps the order of the data.
    """

    examples: int
    size: int
    seed: int | None

    @property
    def count(self) -> int:
        """Number of shards."""
        return -(-self.examples // self.size)

    @property
    def name(self) -> str:
        """Identifies the layout; cursors are comparable only between equal names."""
        return f"{self.examples}_examples_by_{self.size}_{order_name(self.seed)}"

    def length(self, assignment: Assignment) -> int:
        """Returns the number of examples in an assignment."""
        return self._stop(assignment) - assignment.begin % EPOCH

    def indices(self, assignment: Assignment) -> np.ndarray[Any, Any]:
        """Returns the indices of an assignment's examples in the data, int64."""
        first = assignment.shard * self.size
        start, stop = first + assignment.begin % EPOCH, first + self._stop(assignment)
        if self.seed is None:
            return np.arange(start, stop)
        return order_of(self.examples, self.seed, assignment.epoch)[start:stop]

    def _stop(self, assignment: Assignment) -> int:
        if assignment.end < progress_value(assignment.epoch + 1):
            return assignment.end % EPOCH
        return min(self.size, self.examples - assignment.shard * self.size)


def order_name(seed: int | None) -> str:
    """Returns the part of a layout's name that tells the order of the examples."""
    return "in_order" if seed is None else f"seed_{seed}"


@functools.lru_cache(maxsize=2)
def order_of(count: int, seed: int, epoch: int) -> np.ndarray[Any, Any]:
    """Returns an epoch's order of `count` examples or pieces: a permutation, int64 [count].

    It is drawn from RandomState, because numpy guarantees that stream across versions.
    """
    return np.random.RandomState([seed, epoch]).permutation(count)


def default_shard_size(examples: int, batch_size: int) -> int:
    """Returns the examples in a shard where the job sets none: up to 16 batches.

    Large shards are assigned rarely.  Small shards keep every worker busy until the end.
    """
    return batch_size * max(1, min(_MOST_BATCHES, examples // (batch_size * _FEWEST_SHARDS)))
