"""The value of a row that an id of an open vocabulary gets when it is admitted.

    fresh_rows(words, table, seed)          # float32 [n, dimension]

It depends on the id and the seed alone: not on the row, on when the id comes, or on the number of ps.  So a worker is
given the value of a row before there is one, and an id that was evicted and comes back begins anew.
"""

from __future__ import annotations

import math

import tensorflow as tf

from ps_train.embeddings.distributions import Distribution, distribution_of
from ps_train.embeddings.row_index import splitmix64
from ps_train.embeddings.table import Table
from ps_train.errors import ModelError

_BELOW = math.erfc(math.sqrt(2)) / 2
"""How much of a normal distribution is more than two deviations below its mean."""

_BITS = 23
_ODD = -7046029254386353131
"""The golden ratio of 2^64: the columns of a row are this far apart before they are mixed."""


def check_initializer(table: Table) -> None:
    """ModelError where the initial value cannot be one of an id alone."""
    _distribution(table)


def initial_rows_of_ids(words: tf.Tensor, table: Table, seed: int) -> tf.Tensor:
    """Of ids as words int64 [n, width]."""
    drawn = _distribution(table)
    if drawn.kind == "constant":
        return tf.fill([tf.shape(words)[0], table.dimension], tf.constant(drawn.zero, tf.float32))
    chance = _chance(words, table.dimension, seed if drawn.seed is None else drawn.seed)
    if drawn.kind == "truncated":
        chance = _BELOW + chance * (1 - 2 * _BELOW)
    standard = chance if drawn.kind == "uniform" else tf.math.ndtri(chance)
    return standard * (drawn.one - drawn.zero) + drawn.zero


def _chance(words: tf.Tensor, dimension: int, seed: int) -> tf.Tensor:
    """Numbers between 0 and 1, both excluded, evenly distributed; float32 [n, dimension]."""
    state = splitmix64(tf.constant([seed], tf.int64))
    for word in tf.unstack(words, axis=1):
        state = splitmix64(tf.bitwise.bitwise_xor(state * _ODD, word))
    columns = tf.range(1, dimension + 1, dtype=tf.int64) * _ODD
    bits = tf.bitwise.right_shift(splitmix64(state[:, tf.newaxis] + columns), tf.constant(63 - _BITS, tf.int64))
    return (tf.cast(bits, tf.float32) + 0.5) / (1 << _BITS)


def _distribution(table: Table) -> Distribution:
    found = distribution_of(table.initializer)
    if found is None:
        kind = table.initializer if isinstance(table.initializer, type) else type(table.initializer)
        raise ModelError(
            f"table {table.name} has initializer={kind.__name__}, which is not possible with "
            "capacity: use a number, zeros, ones, constant, uniform, normal or truncated normal."
        )
    return found
