"""In which order the rows of a table lie, and their initial values.

A ps has a contiguous range of *positions*.  Row numbers are dealt out to 251 heaps like cards, number n to heap n mod
251, and the heaps lie one behind the other, each in the order of its numbers.  A range of heaps has its share of any
run of numbers (the frequent ids are mostly a run), whatever the number of ps; and numbers that are often used together
lie close together, so that a step touches few pages of memory.  The order does not depend on the number of ps.  See
docs/decisions/0009-tables.md.

    positions = positions_of(numbers, total=1000)       # int64, tensors or numpy arrays
    numbers_at(positions, total=1000)                   # the other way round, numpy
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.embeddings.distributions import distribution_of

BLOCKS = 251
"""Many for any likely number of ps, few against the pages of a large table, and prime: ids often have a pattern."""

_STEP = 155
"""Near the golden ratio of the heaps: neighbours are dealt to heaps far apart, a run of them evenly."""

_PHILOX = 1
_PER_COUNT = 4
"""Numbers that one step of Philox's counter gives."""

_TRUNCATED_COUNTS = 256
"""TensorFlow reserves so many steps for what one step gives where numbers may be drawn again."""


def begins(total: int) -> np.ndarray[Any, Any]:
    """Of each residue n mod the number of heaps, where its heap begins."""
    heaps = min(BLOCKS, total)
    residues = np.arange(heaps) * _STEP % BLOCKS
    place = np.argsort(np.argsort(residues))  # the order of the heaps, where there are fewer of them
    sizes = (total - 1 - np.arange(heaps)) // heaps + 1
    in_order = np.zeros(heaps, np.int64)
    in_order[place] = sizes
    return (np.cumsum(in_order) - in_order)[place]


def positions_of(numbers: Any, total: int) -> Any:
    """Where rows lie."""
    first = begins(total)
    residues, index = numbers % len(first), numbers // len(first)
    return (first[residues] if isinstance(numbers, np.ndarray) else tf.gather(tf.constant(first), residues)) + index


def numbers_at(positions: np.ndarray[Any, Any], total: int) -> np.ndarray[Any, Any]:
    """Which rows lie there."""
    first = begins(total)
    order = np.argsort(first)
    residues = order[np.searchsorted(first[order], positions, side="right") - 1]
    return (positions - first[residues]) * len(first) + residues


def initial_rows(initializer: Any, begin: Any, rows: Any, dimension: int, seed: int) -> tf.Tensor:
    """Initial values of the positions `begin` to `begin + rows`, float32 [rows, dimension].

    Where `distribution_of(initializer)` is known, a position's values depend on the seed and itself alone, and `begin`
    and `rows` may be int64 tensors.  Another initializer is called with the shape of the range and a seed that depends
    on where it begins.
    """
    drawn = distribution_of(initializer)
    if drawn is None:
        return tf.convert_to_tensor(_seeded(initializer, seed, begin)([rows, dimension], dtype=tf.float32))
    if drawn.kind == "constant":
        return tf.fill([rows, dimension], tf.constant(drawn.zero, tf.float32))
    standard = _standard(drawn.kind, begin, rows, dimension, seed if drawn.seed is None else drawn.seed)
    return standard * (drawn.one - drawn.zero) + drawn.zero


def _seeded(initializer: Any, seed: int, begin: int) -> Any:
    """Its own seed counts more than that of the job."""
    if isinstance(initializer, type):
        initializer = initializer()
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    if "seed" not in config:
        return initializer
    own = config["seed"] if isinstance(config["seed"], int) else seed
    kept = {name: value for name, value in config.items() if name != "dtype"}
    return type(initializer).from_config({**kept, "seed": (own + begin) % (1 << 31)})


def _standard(kind: str, begin: Any, rows: Any, dimension: int, seed: int) -> tf.Tensor:
    """Numbers of a stream that begins at position 0."""
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
