"""Row masks: the touched rows of a sparse gradient that is sent as a dense one.

An optimizer treats a row that no example has touched differently from a row with gradient zero; Momentum, for example,
does not move an untouched row.  An L2 term must not change an untouched row either.  So TensorFlow's IndexedSlices are
sent as a dense gradient with a mask of its rows.  The ps makes them sparse again.

The rows of a table that a step has fetched and may not use have such a mask too (`row_exchange.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from ps_train.engine.transport.beside_rows import TOUCHED, beside_name, is_beside
from ps_train.engine.variables.plan import Slice


def mask_name(name: str) -> str:
    """Returns the name under which the mask of a variable, or of a slice, is sent."""
    return beside_name(TOUCHED, name)


def mask_slice(piece: Slice) -> Slice:
    """Returns the mask's slice for a slice of a sparse gradient: one float32 for each row."""
    rows = piece.shape[0]
    return dataclasses.replace(
        piece, variable=mask_name(piece.variable), shape=(rows,), dtype="float32", bytes=rows * tf.float32.size
    )


def row_mask(gradient: tf.IndexedSlices, rows: int) -> tf.Tensor:
    """Returns 1 for each row that the gradient touches, else 0; float32 [rows]."""
    ones = tf.ones_like(gradient.indices, tf.float32)
    return tf.minimum(tf.math.unsorted_segment_sum(ones, gradient.indices, rows), 1.0)


def apply_masks(values: Mapping[str, tf.Tensor], masks: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Sets the untouched rows of values to zero.

    Args:
      values: variable name to value.
      masks: variable name to row mask, see `row_mask`; a value without a mask stays as it is.
    """
    masked = dict(values)
    for name, mask in masks.items():
        value = masked[name]
        rows = tf.reshape(tf.cast(mask > 0, value.dtype), [-1] + [1] * (value.shape.rank - 1))
        masked[name] = value * rows
    return masked


def to_indexed_slices(gradients: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor | tf.IndexedSlices]:
    """Removes the masks from gradients and returns masked gradients as IndexedSlices of their touched rows."""
    found: dict[str, tf.Tensor | tf.IndexedSlices] = {}
    for name, gradient in gradients.items():
        if mask_name(name) in gradients:
            indices = tf.reshape(tf.where(gradients[mask_name(name)] > 0), [-1])
            if isinstance(gradient, tf.IndexedSlices):
                values, rows = tf.gather(gradient.values, indices), tf.gather(gradient.indices, indices)
                found[name] = tf.IndexedSlices(values, rows, gradient.dense_shape)
                continue
            shape = tf.constant(gradient.shape.as_list(), tf.int64)
            found[name] = tf.IndexedSlices(tf.gather(gradient, indices), indices, shape)
        elif not is_beside(name):
            found[name] = gradient
    return found
