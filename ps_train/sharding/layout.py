"""How data are cut into shards, and how far each of them has been used.

    layout = Layout(examples=1000, size=64, seed=7)
    layout.count                                    # 16 shards; the last one is of 40 examples
    layout.indices(Assignment(3, cursor(0, 32), cursor(1)))   # the last 32 examples of shard 3 in the first pass

A shard is a run of positions in the order of a pass.  How far a shard has been used is one whole number, a cursor: how
many passes are through, and how many of its examples have been used in the present one.

Numbers only: no TensorFlow, and nobody who holds a shard.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

EPOCH = 1 << 40
"""A cursor is `passes * PASS + examples`; no shard is as large."""

_MOST_BATCHES, _FEWEST_SHARDS = 16, 64


def progress_value(passes: int, examples: int = 0) -> int:
    return passes * EPOCH + examples


@dataclasses.dataclass(frozen=True)
class Assignment:
    """Of one shard the examples from one cursor to another, all of the same pass."""

    shard: int
    begin: int
    end: int

    @property
    def epoch(self) -> int:
        return self.begin // EPOCH


@dataclasses.dataclass(frozen=True)
class ShardLayout:
    """Args:
    examples: how many there are in all.
    size: how many of them a shard has; the last one may have fewer.
    seed: of the order of each pass; None: the order of the data.
    """

    examples: int
    size: int
    seed: int | None

    @property
    def count(self) -> int:
        """How many shards."""
        return -(-self.examples // self.size)

    @property
    def name(self) -> str:
        """What must be the same for a cursor to mean the same."""
        return f"{self.examples}_examples_by_{self.size}_{order_name(self.seed)}"

    def length(self, assignment: Assignment) -> int:
        """How many examples."""
        return self._stop(assignment) - assignment.begin % EPOCH

    def indices(self, assignment: Assignment) -> np.ndarray[Any, Any]:
        """Which examples, int64."""
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
    return "in_order" if seed is None else f"seed_{seed}"


@functools.lru_cache(maxsize=2)
def order_of(count: int, seed: int, number_of_pass: int) -> np.ndarray[Any, Any]:
    """The order of a pass over so many examples or pieces.  By RandomState, whose numbers numpy promises to keep."""
    return np.random.RandomState([seed, number_of_pass]).permutation(count)


def default_shard_size(examples: int, batch_size: int) -> int:
    """Large enough that shards are seldom handed out, small enough that all have their part until the end."""
    return batch_size * max(1, min(_MOST_BATCHES, examples // (batch_size * _FEWEST_SHARDS)))
