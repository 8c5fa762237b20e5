"""The initial value of a row that an admitted id of an open vocabulary gets.

    initial_rows_of_ids(keys, table, seed)          # float32 [n, dimension]

It depends on the id and the seed alone, not on the row, the time of admission or the number of ps.  A worker can
therefore use the value before the row exists.  An id that was evicted and returns starts from its initial value again.
"""

from __future__ import annotations

import math

import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.modeling.tables.distributions import Distribution, distribution_of
from ps_train.modeling.tables.row_index import splitmix64
from ps_train.modeling.tables.table import Table

_BELOW = math.erfc(math.sqrt(2)) / 2
"""The part of a normal distribution that lies more than two deviations below its mean."""

_BITS = 23
_GOLDEN_RATIO = -7046029254386353131
"""2^64 divided by the golden ratio, signed: the distance of a row's columns before mixing."""


def check_initializer(table: Table) -> None:
    """Checks that a table's initial values can depend on an id alone.

    Raises:
      ModelError: they depend on the whole variable.
    """
    _distribution(table)


def initial_rows_of_ids(keys: tf.Tensor, table: Table, seed: int) -> tf.Tensor:
    """Returns the initial rows of keys (int64 [n, width]), float32 [n, dimension]."""
    distribution = _distribution(table)
    if distribution.kind == "constant":
        return tf.fill([tf.shape(keys)[0], table.dimension], tf.constant(distribution.zero, tf.float32))
    uniform = _uniform(keys, table.dimension, seed if distribution.seed is None else distribution.seed)
    if distribution.kind == "truncated":
        uniform = _BELOW + uniform * (1 - 2 * _BELOW)
    standard = uniform if distribution.kind == "uniform" else tf.math.ndtri(uniform)
    return standard * (distribution.one - distribution.zero) + distribution.zero


def _uniform(keys: tf.Tensor, dimension: int, seed: int) -> tf.Tensor:
    """Returns uniform numbers between 0 and 1, both excluded, float32 [n, dimension]."""
    state = splitmix64(tf.constant([seed], tf.int64))
    for part in tf.unstack(keys, axis=1):
        state = splitmix64(tf.bitwise.bitwise_xor(state * _GOLDEN_RATIO, part))
    columns = tf.range(1, dimension + 1, dtype=tf.int64) * _GOLDEN_RATIO
    bits = tf.bitwise.right_shift(splitmix64(state[:, tf.newaxis] + columns), tf.constant(63 - _BITS, tf.int64))
    return (tf.cast(bits, tf.float32) + 0.5) / (1 << _BITS)


def _distribution(table: Table) -> Distribution:
    found = distribution_of(table.initializer)
    if found is None:
        kind = table.initializer if isinstance(table.initializer, type) else type(table.initializer)
        raise ModelError(
            f"table {table.name} has initializer={kind.__name__}, which does not work "
            "with capacity: use a number, zeros, ones, constant, uniform, normal or truncated normal."
        )
    return found
