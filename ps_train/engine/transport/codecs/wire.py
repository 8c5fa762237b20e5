"""Several vectors as one tensor of bytes: each tensor between two processes is a message of its own.

wire = to_bytes([numbers, scales])                # uint8 [n]
numbers, scales = from_bytes(wire, (tf.int8, tf.float32))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def to_bytes(vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Joins vectors into one of bytes: first the size of each, int32, then the vectors; a single uint8 [n]."""
    parts = [bytes_of(vector) for vector in vectors]
    sizes = tf.stack([tf.size(part) for part in parts])
    return tf.concat([bytes_of(sizes), *parts], 0)


def from_bytes(wire: tf.Tensor, dtypes: Sequence[tf.DType]) -> list[tf.Tensor]:
    """Returns the vectors that `to_bytes` has joined, which have these dtypes."""
    head = 4 * len(dtypes)
    sizes = tf.bitcast(tf.reshape(wire[:head], [-1, 4]), tf.int32)
    parts = tf.split(wire[head:], sizes, num=len(dtypes))
    return [of_bytes(part, dtype) for part, dtype in zip(parts, dtypes, strict=True)]


def as_one(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the tensors of an encoded vector as one: a single one as it is, several as bytes."""
    return parts[0] if len(parts) == 1 else to_bytes(parts)


def from_one(wire: tf.Tensor, dtypes: Sequence[tf.DType]) -> list[tf.Tensor]:
    """Returns the tensors that `as_one` has joined."""
    return [wire] if len(dtypes) == 1 else from_bytes(wire, dtypes)


def bytes_of(vector: tf.Tensor) -> tf.Tensor:
    """Returns a vector as bytes, uint8 [n]; nothing is copied."""
    return vector if vector.dtype == tf.uint8 else tf.reshape(tf.bitcast(vector, tf.uint8), [-1])


def of_bytes(part: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Returns the vector of a dtype that `bytes_of` made bytes of."""
    shape = [-1] if dtype.size == 1 else [-1, dtype.size]
    return tf.bitcast(tf.reshape(part, shape), dtype)


def joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns tensors of one dtype as one vector."""
    flat = [tf.reshape(part, [-1]) for part in parts]
    return tf.concat(flat, 0) if len(flat) > 1 else flat[0]


def split(vector: tf.Tensor, shapes: Sequence[Sequence[Any]]) -> list[tf.Tensor]:
    """Splits a vector into tensors, as the inverse of `joined`; in a shape only the first number may be a tensor."""
    parts = [vector]
    if len(shapes) > 1:
        parts = tf.split(vector, tf.stack([math.prod(shape[1:]) * shape[0] for shape in shapes]), num=len(shapes))
    return [tf.reshape(part, [-1, *shape[1:]]) for part, shape in zip(parts, shapes, strict=True)]
