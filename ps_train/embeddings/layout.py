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

HEAPS = 251
"""Many for any likely number of ps, few against the pages of a large table, and prime: ids often have a pattern."""

_STEP = 155
"""Near the golden ratio of the heaps: neighbours are dealt to heaps far apart, a run of them evenly."""

LIMIT = 0.05
"""Initial values where nothing is said: uniform within this, as those of Keras's embeddings."""

_PHILOX = 1
_PER_COUNT = 4
"""Numbers that one step of Philox's counter gives."""

_TRUNCATED_COUNTS = 256
"""TensorFlow reserves so many steps for what one step gives where numbers may be drawn again."""


def begins(total: int) -> np.ndarray[Any, Any]:
    """Of each residue n mod the number of heaps, where its heap begins."""
    heaps = min(HEAPS, total)
    residues = np.arange(heaps) * _STEP % HEAPS
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


CHUNK_BYTES = 64 << 20
"""Of large slices so much is drawn at once, and not all of it beside the slice."""


def initial_rows(initializer: Any, begin: int, rows: int, dimension: int, seed: int) -> tf.Tensor:
    """Initial values of the positions `begin` to `begin + rows`, float32 [rows, dimension].

    Of the distributions that Philox draws by a counter, a position's values depend on the seed and itself alone.
    Another initializer is called with the shape of the range and a seed that depends on where it begins.
    """
    if isinstance(initializer, type):
        initializer = initializer()
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    kind = type(initializer).__name__.lower().replace("_", "")
    if initializer is None:
        return _drawn("uniform", begin, rows, dimension, seed, -LIMIT, LIMIT)
    if isinstance(initializer, int | float):
        return tf.fill([rows, dimension], tf.constant(initializer, tf.float32))
    given = config.get("seed")
    seed = given if isinstance(given, int) else seed
    if "uniform" in kind and config.keys() >= {"minval", "maxval"} and config["maxval"] is not None:
        return _drawn("uniform", begin, rows, dimension, seed, config["minval"], config["maxval"])
    if "normal" in kind and config.keys() >= {"mean", "stddev"}:
        distribution = "truncated" if "truncated" in kind else "normal"
        mean, stddev = config["mean"], config["stddev"]
        return _drawn(distribution, begin, rows, dimension, seed, mean, mean + stddev)
    if "seed" in config:
        kept = {name: value for name, value in config.items() if name != "dtype"}
        initializer = type(initializer).from_config({**kept, "seed": (seed + begin) % (1 << 31)})
    return tf.convert_to_tensor(initializer([rows, dimension], dtype=tf.float32))


def _drawn(distribution: str, begin: int, rows: int, dimension: int, seed: int, zero: float, one: float) -> tf.Tensor:
    """Numbers of a stream that begins at position 0, scaled so that 0 becomes `zero` and 1 becomes `one`."""
    step = max(1, CHUNK_BYTES // (4 * dimension))
    if rows <= step:
        return _at_once(distribution, begin, rows, dimension, seed, zero, one)
    whole = tf.raw_ops.Empty(shape=[rows, dimension], dtype=tf.float32)
    for offset in range(0, rows, step):
        count = min(step, rows - offset)
        with tf.control_dependencies([whole]):  # one after the other
            part = _at_once(distribution, begin + offset, count, dimension, seed, zero, one)
            whole = tf.raw_ops.InplaceUpdate(x=whole, i=tf.range(offset, offset + count), v=part)
    return whole


def _at_once(distribution: str, begin: int, rows: int, dimension: int, seed: int, zero: float, one: float) -> tf.Tensor:
    first, skipped = divmod(begin * dimension, _PER_COUNT)
    counter = first * (_TRUNCATED_COUNTS if distribution == "truncated" else 1)
    draw = {
        "uniform": tf.raw_ops.StatelessRandomUniformV2,
        "normal": tf.raw_ops.StatelessRandomNormalV2,
        "truncated": tf.raw_ops.StatelessTruncatedNormalV2,
    }[distribution]
    numbers = draw(
        shape=tf.constant([rows * dimension + skipped], tf.int64),
        key=tf.constant([seed], tf.uint64),
        counter=tf.constant([counter, 0], tf.uint64),
        alg=_PHILOX,
    )
    return tf.reshape(numbers[skipped:] if skipped else numbers, [rows, dimension]) * (one - zero) + zero
