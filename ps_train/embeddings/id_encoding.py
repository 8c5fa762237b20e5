"""Ids of open vocabularies as whole numbers: what is kept of an id, compared and sent.

    words = words_of(table, ids)            # int64 [n, width]: width 1 for whole numbers, 2 for strings
    digests_of(words)                       # int64 [n], by which an index finds them
    heaps_at(words, heaps=251)              # int64 [n], 0 .. heaps - 1

A whole number is its own word, and its own digest.  A string of up to 15 bytes is its bytes and its length: no two have
the same words.  Of a longer one the words are 126 bits of SipHash (Aumasson and Bernstein 2012): among a billion such
strings two are alike with a probability below 1e-19.
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.embeddings.row_index import splitmix64
from ps_train.embeddings.table import Table
from ps_train.errors import ModelError

_SHORT = 15
_KEYS = ([0x243F6A8885A308D3, 0x13198A2E03707344], [0x3DB46955CC7C7B31, 0x1E9B62D60D1C2C04])
_MANY = (1 << 63) - 1
_LONG = -(1 << 63)
"""The bit that short strings do not have."""


def encode_ids(table: Table, ids: tf.Tensor) -> tf.Tensor:
    """Of ids [n], whole numbers or strings."""
    if ids.dtype == tf.string:
        return _of_strings(ids)
    if not ids.dtype.is_integer:
        raise ModelError(f"table {table.name} is given ids of {ids.dtype.name}: use whole numbers or strings.")
    return tf.cast(ids, tf.int64)[:, tf.newaxis]


def _of_strings(ids: tf.Tensor) -> tf.Tensor:
    size = tf.cast(tf.strings.length(ids), tf.int64)
    first, second = tf.unstack(tf.io.decode_raw(ids, tf.int64, fixed_length=_SHORT + 1), axis=1)
    written = tf.stack([first, second + tf.bitwise.left_shift(size, tf.constant(56, tf.int64))], 1)
    low, high = (tf.strings.to_hash_bucket_strong(ids, _MANY, key) for key in _KEYS)
    hashed = tf.stack([low, tf.bitwise.bitwise_or(high, tf.constant(_LONG, tf.int64))], 1)
    return tf.where((size <= _SHORT)[:, tf.newaxis], written, hashed)


def digests(words: tf.Tensor) -> tf.Tensor:
    """Of strings not all are different: who finds a row by one compares the words."""
    if words.shape[1] == 1:
        return words[:, 0]
    return tf.bitwise.bitwise_xor(words[:, 0], splitmix64(words[:, 1]))


def group_of(words: tf.Tensor, heaps: int) -> tf.Tensor:
    """To which heap an id belongs."""
    return splitmix64(digests(words)) % heaps


def unique(words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Each once, and which of them each was (int32 [n])."""
    if words.shape[1] == 1:
        found, index = tf.unique(words[:, 0])
        return found[:, tf.newaxis], index
    found, index = tf.raw_ops.UniqueV2(x=words, axis=tf.constant([0]))
    return tf.ensure_shape(found, [None, words.shape[1]]), index
