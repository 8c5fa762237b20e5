"""Sparse gradients of variables that travel whole: which rows they touch travels with them.

An optimizer treats a row that no example has touched differently from one whose gradient is zero (Momentum lets it
rest), and an L2 term must leave it alone.  So a gradient that TensorFlow gives as IndexedSlices is sent as a dense one
and a mask of its rows, and becomes sparse again on the ps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from ps_train.placement.plan import Slice

_PREFIX = "touched:"


def mask_name(name: str) -> str:
    """Under which name the mask of a variable, or of a slice, travels."""
    return _PREFIX + name


def is_mask(name: str) -> bool:
    return name.startswith(_PREFIX)


def mask_slice(piece: Slice) -> Slice:
    """What travels beside a slice of a sparse gradient: one float32 for each of its rows."""
    rows = piece.shape[0]
    return dataclasses.replace(
        piece, variable=mask_name(piece.variable), shape=(rows,), dtype="float32", bytes=rows * tf.float32.size
    )


def row_mask(gradient: tf.IndexedSlices, rows: int) -> tf.Tensor:
    """1 for each row that the gradient touches, else 0; float32 [rows]."""
    ones = tf.ones_like(gradient.indices, tf.float32)
    return tf.minimum(tf.math.unsorted_segment_sum(ones, gradient.indices, rows), 1.0)


def apply_masks(values: Mapping[str, tf.Tensor], masks: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The values that a batch has touched: untouched rows are zero."""
    found = dict(values)
    for name, mask in masks.items():
        value = found[name]
        rows = tf.reshape(tf.cast(mask > 0, value.dtype), [-1] + [1] * (value.shape.rank - 1))
        found[name] = value * rows
    return found


def to_indexed_slices(gradients: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor | tf.IndexedSlices]:
    """Gradients without their masks; those that had one as IndexedSlices of the rows that were touched."""
    found: dict[str, tf.Tensor | tf.IndexedSlices] = {}
    for name, gradient in gradients.items():
        if mask_name(name) in gradients:
            indices = tf.reshape(tf.where(gradients[mask_name(name)] > 0), [-1])
            shape = tf.constant(gradient.shape.as_list(), tf.int64)
            found[name] = tf.IndexedSlices(tf.gather(gradient, indices), indices, shape)
        elif not is_mask(name):
            found[name] = gradient
    return found
