"""From ids to numbers of rows: checked, hashed, and each field behind the one before.

    numbers = row_numbers(table, ids, place)        # int64, of the shape of ids

`place` tells, of an id that must be complained of, in which example and field it stands.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.stream import pipeline_error
from ps_train.embeddings.table import Table
from ps_train.errors import ModelError

Place = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""Index of an id (int64 [rank of ids]) to example and field."""

_MANY = (1 << 63) - 1


def row_indices(table: Table, ids: tf.Tensor, place: Place) -> tf.Tensor:
    """Numbers of rows, 0 .. table.total - 1.  Where the table is by field, the last dimension of ids is the fields."""
    if ids.dtype == tf.string:
        if not table.hashed:
            raise ModelError(
                f"table {table.name} is given ids that are strings: declare it with hash_buckets or capacity."
            )
        hashes = tf.strings.to_hash_bucket_fast(ids, _MANY)
    elif ids.dtype.is_integer:
        ids = tf.cast(ids, tf.int64)
        hashes = splitmix64(ids)
    else:
        raise ModelError(f"table {table.name} is given ids of {ids.dtype.name}: use whole numbers or strings.")
    sizes = tf.constant(table.sizes if table.by_field else table.sizes[0], tf.int64)
    if table.hashed:
        numbers = hashes % sizes
    else:
        inside = (ids >= 0) & (ids < sizes)
        if table.oov == "error":
            numbers = _checked(table, ids, inside, place)
        else:
            numbers = tf.where(inside, ids, hashes % sizes if table.oov == "hash" else sizes)
    return numbers + tf.constant(table.offsets, tf.int64) if table.by_field else numbers


def splitmix64(ids: tf.Tensor) -> tf.Tensor:
    """A number of 63 bits for each int64 that looks like chance: the finalizer of SplitMix64 (Steele et al. 2014,
    "Fast splittable pseudorandom number generators")."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        shifted = tf.bitwise.right_shift(ids, tf.constant(shift, tf.int64)) & ((1 << (64 - shift)) - 1)
        ids = tf.bitwise.bitwise_xor(ids, shifted) * _signed(factor)
    return ids & _MANY


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _checked(table: Table, ids: tf.Tensor, inside: tf.Tensor, place: Place) -> tf.Tensor:
    def complain() -> tf.Operation:
        index = tf.where(tf.logical_not(inside))[0]
        example, field = place(index)
        highest = tf.gather(tf.constant(table.sizes, tf.int64), field if table.by_field else 0) - 1
        words = [f"table {table.name}: id ", tf.gather_nd(ids, index), " in field ", field, " of example ", example]
        words += [" of the batch is out of range: allowed are 0 to ", highest]
        words += ["; correct the ids, declare more rows, or use oov=hash, oov=default, capacity or hash_buckets."]
        text = [word if isinstance(word, str) else tf.as_string(word) for word in words]
        text[0] = str(pipeline_error(str(text[0]))).rstrip("\n")
        return tf.group(tf.debugging.Assert(False, [tf.strings.join(text)]))

    with tf.control_dependencies([v1.cond(tf.reduce_all(inside), tf.no_op, complain)]):
        return tf.identity(ids)
