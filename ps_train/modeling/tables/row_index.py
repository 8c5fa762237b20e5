"""Row indices of ids: checked or hashed, with the rows of each field after those of the field before.

    indices = row_indices(table, ids, locate)       # int64, in the shape of ids

`locate` gives the example and the field of an id for an error message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.data.named_inputs import input_name
from ps_train.data.stream import assertion
from ps_train.modeling.tables.table import Table

LocateId = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor | None]]
"""Maps indices of ids, int64 [n, rank of ids], to their examples and to their fields; None for the field 0."""

_HASH_BUCKETS = (1 << 63) - 1


def row_indices(table: Table, ids: tf.Tensor, locate: LocateId) -> tf.Tensor:
    """Returns row indices, int64 in the shape of ids, 0 .. table.total - 1.

    Args:
      table: a table that is not an open vocabulary.
      ids: whole numbers or strings; the last dimension is the fields if the table is by field.
      locate: gives the example and the field of an id out of range, for the error.

    Raises:
      ModelError: the ids do not fit the table's declaration.
    """
    if ids.dtype == tf.string:
        if not table.hashed:
            raise ModelError(
                f"table {table.name} is given {described_ids(ids)}: declare it with hash_buckets or capacity."
            )
    elif ids.dtype.is_integer:
        ids = tf.cast(ids, tf.int64)
    else:
        raise ModelError(f"table {table.name} is given {described_ids(ids)}: use whole numbers or strings.")
    sizes = tf.constant(table.sizes if table.by_field else table.sizes[0], tf.int64)
    if table.hashed:
        indices = _hashes(ids) % sizes
    else:
        inside = (ids >= 0) & (ids < sizes)
        if table.oov == "error":
            indices = _checked(table, ids, inside, locate)
        else:
            indices = tf.where(inside, ids, _hashes(ids) % sizes if table.oov == "hash" else sizes)
    return indices + tf.constant(table.offsets, tf.int64) if table.by_field else indices


def _hashes(ids: tf.Tensor) -> tf.Tensor:
    if ids.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(ids, _HASH_BUCKETS)
    return splitmix64(ids)


def described_ids(ids: tf.Tensor) -> str:
    """Returns ids for an error: "ids of float32 (feature age)"."""
    kind, name = "that are strings" if ids.dtype == tf.string else f"of {ids.dtype.name}", input_name(ids)
    return f"ids {kind}" + (f" ({name})" if name else "")


def splitmix64(ids: tf.Tensor) -> tf.Tensor:
    """Returns a 63-bit hash of each int64: the finalizer of SplitMix64.

    See Steele et al. 2014, "Fast splittable pseudorandom number generators".
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        shifted = tf.bitwise.right_shift(ids, tf.constant(shift, tf.int64)) & ((1 << (64 - shift)) - 1)
        ids = tf.bitwise.bitwise_xor(ids, shifted) * _signed(factor)
    return ids & _HASH_BUCKETS


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _checked(table: Table, ids: tf.Tensor, inside: tf.Tensor, locate: LocateId) -> tf.Tensor:
    """Returns the ids after an assertion that they are all in range.

    The first wrong id is found in every step.  A branch that does so only after an error would be two functions for
    each lookup, which take longer to build than all other operations of the lookup.
    """
    name = input_name(ids)
    wrong = tf.where(tf.logical_not(inside))[:1]
    example, field = locate(wrong)
    highest: Any = table.sizes[0] - 1
    if table.by_field and field is not None:
        highest = tf.gather(tf.constant(table.sizes, tf.int64), field) - 1
    parts: list[Any] = [f"table {table.name}: id ", tf.gather_nd(ids, wrong), " in "]
    if ids.shape.rank == 2 or not name:
        parts += ["field ", 0 if field is None else field, f" of {name}" if name else ""]
    else:
        parts += [name]
    parts += [" of example ", example, " of the batch is out of range: allowed are 0 to ", highest]
    parts += ["; correct the ids, declare more rows, or use oov=hash, oov=default, capacity or hash_buckets."]
    with tf.control_dependencies([assertion(inside, parts)]):
        return tf.identity(ids)
