"""Encoding of open vocabularies' ids as keys, which are stored, compared and sent.

    keys = encode_ids(table, ids)           # int64 [n, width]: width 1 for whole numbers, 2 for strings
    digests(keys)                           # int64 [n], the keys of the hash table in `index.py`
    group_of(keys, groups=251)              # int64 [n], 0 .. groups - 1

A whole number is its own key and its own digest.  The key of a string of up to 15 bytes is its bytes and its length, so
different strings have different keys.  The key of a longer string is 126 bits of SipHash (Aumasson and Bernstein 2012).
The probability that any two of a billion long strings have the same key is below 1e-19.
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.modeling.tables.row_index import described_ids, splitmix64
from ps_train.modeling.tables.table import Table

_MAX_PLAIN_BYTES = 15
_SIPHASH_KEYS = ([0x243F6A8885A308D3, 0x13198A2E03707344], [0x3DB46955CC7C7B31, 0x1E9B62D60D1C2C04])
_HASH_BUCKETS = (1 << 63) - 1
_HASHED_BIT = -(1 << 63)
"""Bit that is set in the second number of a hashed string's key alone."""


def encode_ids(table: Table, ids: tf.Tensor) -> tf.Tensor:
    """Returns the keys of ids [n], int64 [n, width].

    Raises:
      ModelError: the ids are neither whole numbers nor strings.
    """
    if ids.dtype == tf.string:
        return _encode_strings(ids)
    if not ids.dtype.is_integer:
        raise ModelError(f"table {table.name} is given {described_ids(ids)}: use whole numbers or strings.")
    return tf.cast(ids, tf.int64)[:, tf.newaxis]


def _encode_strings(ids: tf.Tensor) -> tf.Tensor:
    size = tf.cast(tf.strings.length(ids), tf.int64)
    first, second = tf.unstack(tf.io.decode_raw(ids, tf.int64, fixed_length=_MAX_PLAIN_BYTES + 1), axis=1)
    plain = tf.stack([first, second + tf.bitwise.left_shift(size, tf.constant(56, tf.int64))], 1)
    low, high = (tf.strings.to_hash_bucket_strong(ids, _HASH_BUCKETS, key) for key in _SIPHASH_KEYS)
    hashed = tf.stack([low, tf.bitwise.bitwise_or(high, tf.constant(_HASHED_BIT, tf.int64))], 1)
    return tf.where((size <= _MAX_PLAIN_BYTES)[:, tf.newaxis], plain, hashed)


def digests(keys: tf.Tensor) -> tf.Tensor:
    """Returns the digests of keys, int64 [n].

    Strings with different keys may share a digest, so a lookup by digest must compare the keys.
    """
    if keys.shape[1] == 1:
        return keys[:, 0]
    return tf.bitwise.bitwise_xor(keys[:, 0], splitmix64(keys[:, 1]))


def group_of(keys: tf.Tensor, groups: int) -> tf.Tensor:
    """Returns the group that each key belongs to, int64 [n]; see `row_groups.py`."""
    return splitmix64(digests(keys)) % groups


def unique(keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the distinct keys, and the index of each key among them, int32 [n]."""
    if keys.shape[1] == 1:
        found, index = tf.unique(keys[:, 0])
        return found[:, tf.newaxis], index
    found, index = tf.raw_ops.UniqueV2(x=keys, axis=tf.constant([0]))
    return tf.ensure_shape(found, [None, keys.shape[1]]), index
