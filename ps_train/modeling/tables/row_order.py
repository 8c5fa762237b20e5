"""The order of a table's rows in memory, and their initial values.

A ps has a contiguous range of *positions*.  Row index n lies in block n mod 251.  The blocks follow each other, and a
block is ordered by row index.  Frequent ids mostly are a run of indices, and each ps gets its share of every run,
whatever the number of ps.  Indices that are often used together lie close together, so a step touches few pages of
memory.  The order does not depend on the number of ps.  See docs/decisions/0009-tables.md.

    positions = positions_of(indices, total=1000)       # int64, tensors or numpy arrays
    numbers_at(positions, total=1000)                   # the inverse, numpy only
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.modeling.tables.distributions import distribution_of

MAX_GROUPS = 251
"""Number of groups of a large table: many more than ps."""

_ROWS = 256
"""Least number of rows in a group, if the table has as many."""

_DEVIATIONS = 4
"""Spare rows of a group, in standard deviations of a Poisson count; about one group in 30 000 exceeds it."""


def group_count(capacity: int) -> int:
    """Returns the number of groups; 1 for a small table."""
    return max(1, min(MAX_GROUPS, capacity // _ROWS))


def rows_per_group(capacity: int) -> int:
    """Returns the number of rows in each group, including the one that is never assigned."""
    groups = group_count(capacity)
    share = -(-capacity // groups)
    return share + (math.ceil(_DEVIATIONS * math.sqrt(share)) if groups > 1 else 0) + 1


BLOCKS = 251
"""Many more than ps, far fewer than the pages of a large table, and prime because ids often have a pattern."""

_STEP = 155
"""BLOCKS divided by the golden ratio, rounded: neighbours lie in distant blocks, and a run is spread evenly."""

_PHILOX = 1
_PER_COUNT = 4
"""Numbers drawn for each step of Philox's counter."""

_TRUNCATED_COUNTS = 256
"""Counter steps that TensorFlow reserves for each step where numbers may be redrawn (truncated normal)."""


def begins(total: int) -> np.ndarray[Any, Any]:
    """Returns the first position of each block, int64 [blocks], for a table of `total` rows."""
    blocks = min(BLOCKS, total)
    residues = np.arange(blocks) * _STEP % BLOCKS
    rank = np.argsort(np.argsort(residues))  # the order of the blocks also if there are fewer than BLOCKS
    sizes = (total - 1 - np.arange(blocks)) // blocks + 1
    in_order = np.zeros(blocks, np.int64)
    in_order[rank] = sizes
    return (np.cumsum(in_order) - in_order)[rank]


def positions_of(indices: Any, total: int) -> Any:
    """Returns the positions of rows, which are their indices in a checkpoint's table.

    Args:
      indices: int64, a tensor or a numpy array of any shape; 0 .. total - 1.
      total: number of rows of the table, over all its fields.

    Returns:
      int64, a tensor or a numpy array like `indices`.
    """
    first = begins(total)
    residues, index = indices % len(first), indices // len(first)
    return (first[residues] if isinstance(indices, np.ndarray) else tf.gather(tf.constant(first), residues)) + index


def numbers_at(positions: np.ndarray[Any, Any], total: int) -> np.ndarray[Any, Any]:
    """Returns the indices of the rows at positions, int64."""
    first = begins(total)
    order = np.argsort(first)
    residues = order[np.searchsorted(first[order], positions, side="right") - 1]
    return (positions - first[residues]) * len(first) + residues


def initial_rows(initializer: Any, begin: Any, rows: Any, dimension: int, seed: int) -> tf.Tensor:
    """Returns initial values of the positions `begin` to `begin + rows`, float32 [rows, dimension].

    If `distribution_of(initializer)` is known, a position's values depend on the seed and the position alone.  `begin`
    and `rows` may then be int64 tensors.  Any other initializer is called with the shape of the range, and with a seed
    that depends on `begin`.
    """
    distribution = distribution_of(initializer)
    if distribution is None:
        return tf.convert_to_tensor(_seeded(initializer, seed, begin)([rows, dimension], dtype=tf.float32))
    if distribution.kind == "constant":
        return tf.fill([rows, dimension], tf.constant(distribution.zero, tf.float32))
    standard = _standard(
        distribution.kind, begin, rows, dimension, seed if distribution.seed is None else distribution.seed
    )
    return standard * (distribution.one - distribution.zero) + distribution.zero


def _seeded(initializer: Any, seed: int, begin: int) -> Any:
    """Returns an initializer with a seed for the range; its own seed takes precedence over the job's."""
    if isinstance(initializer, type):
        initializer = initializer()
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    if "seed" not in config:
        return initializer
    own = config["seed"] if isinstance(config["seed"], int) else seed
    kept = {name: value for name, value in config.items() if name != "dtype"}
    return type(initializer).from_config({**kept, "seed": (own + begin) % (1 << 31)})


def _standard(kind: str, begin: Any, rows: Any, dimension: int, seed: int) -> tf.Tensor:
    """Returns standard values of a random stream that begins at position 0, float32 [rows, dimension]."""
    before = begin * dimension
    aligned = dimension % _PER_COUNT == 0
    skipped = 0 if aligned else before % _PER_COUNT
    counter = before // _PER_COUNT * (_TRUNCATED_COUNTS if kind == "truncated" else 1)
    draw = {
        "uniform": tf.raw_ops.StatelessRandomUniformV2,
        "normal": tf.raw_ops.StatelessRandomNormalV2,
        "truncated": tf.raw_ops.StatelessTruncatedNormalV2,
    }[kind]
    numbers = draw(
        shape=tf.reshape(tf.convert_to_tensor(rows * dimension + skipped, tf.int64), [1]),
        key=tf.constant([seed], tf.uint64),
        counter=tf.cast(tf.stack([tf.convert_to_tensor(counter, tf.int64), 0]), tf.uint64),
        alg=_PHILOX,
    )
    return tf.reshape(numbers if aligned else numbers[skipped:], [rows, dimension])
