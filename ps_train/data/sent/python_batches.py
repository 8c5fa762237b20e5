"""Batches that Python code gives: their common spec, and their arrays.

    spec = spec_of("generator", first_batches)
    arrays = arrays_of("generator", batch, spec)        # in the order and the types of the spec's leaves

The rules are those of Keras: an array or a dict alone is the features, a list of up to three values is a tuple, and a
dimension in which the first batches differ is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.sent.given_arrays import as_arrays
from ps_train.data.stream import pipeline_error

PEEKED = 2
"""Number of batches whose shapes are compared; as many as Keras looks at."""


def spec_of(kind: str, batches: Sequence[Any]) -> Any:
    """Returns the nested specs of batches, whose first dimension is None.

    Args:
      kind: the kind of data in errors.
      batches: some of them.

    Raises:
      DataError: there are none, they differ in their structures, or are not batches of arrays.
    """
    if not batches:
        raise DataError(f"the {kind} has no batches, so there is nothing to train on: give at least one.")
    found = [_structured(kind, batch) for batch in batches]
    try:
        return tf.nest.map_structure(lambda *arrays: _spec(kind, arrays), *found)
    except (TypeError, ValueError):
        raise DataError(f"the batches of the {kind} differ in their structures: give all the same.") from None


def _structured(kind: str, batch: Any) -> Any:
    """Returns a batch as nested arrays, whose lists are tuples."""
    if isinstance(batch, list):
        batch = tuple(batch)
    if not isinstance(batch, dict | tuple):
        batch = (batch,)
    if isinstance(batch, tuple) and len(batch) not in (1, 2, 3):
        raise DataError(
            f"a batch of the {kind} is a tuple of {len(batch)} values: give (x,), (x, y) or (x, y, sample_weight)."
        )
    return as_arrays(f"a batch of the {kind}", batch, is_cast=False)


def _spec(kind: str, arrays: Sequence[Any]) -> Any:
    if all(array is None for array in arrays):
        return None
    ranks = {getattr(array, "ndim", None) for array in arrays}
    if len(ranks) > 1:
        raise DataError(f"the batches of the {kind} differ in their number of dimensions: give all the same.")
    sizes = [set(each) for each in zip(*(array.shape[1:] for array in arrays), strict=True)]
    dtype = tf.string if arrays[0].dtype.kind in "OSU" else tf.dtypes.as_dtype(arrays[0].dtype)
    return tf.TensorSpec([None, *(each.pop() if len(each) == 1 else None for each in sizes)], dtype)


def arrays_of(kind: str, batch: Any, spec: Any) -> list[np.ndarray[Any, Any]]:
    """Returns a batch's arrays; called inside of a pipeline.

    Args:
      kind: the kind of data in errors.
      batch: as the user's code gives it.
      spec: of `spec_of`.

    Raises:
      ValueError: of `pipeline_error`: the batch is not of the spec.
    """
    try:
        structured = _structured(kind, batch)
    except DataError as error:
        raise pipeline_error(str(error)) from None
    try:
        tf.nest.assert_same_structure(structured, spec)
    except (TypeError, ValueError):
        raise pipeline_error(
            f"a batch of the {kind} has another structure than the first ones: give all the same."
        ) from None
    arrays = []
    for array, wanted in zip(tf.nest.flatten(structured), tf.nest.flatten(spec), strict=True):
        if wanted is None:
            continue
        if array is None or not wanted.shape.is_compatible_with(array.shape):
            shown = None if array is None else array.shape
            raise pipeline_error(
                f"a batch of the {kind} has the shape {shown}, and the first ones had {wanted.shape}: give all the "
                "same shape."
            )
        is_text = wanted.dtype == tf.string
        arrays.append(array if is_text else array.astype(wanted.dtype.as_numpy_dtype, copy=False))
    return arrays


def specs_in(spec: Any) -> list[tf.TensorSpec]:
    """Returns the specs of a batch's arrays."""
    return [leaf for leaf in tf.nest.flatten(spec) if leaf is not None]


def packed_as(spec: Any, tensors: Sequence[Any]) -> Any:
    """Returns tensors in the structure of a spec."""
    left = iter(tensors)
    return tf.nest.map_structure(lambda leaf: None if leaf is None else next(left), spec)


def eager_batch(kind: str, batch: Any, spec: Any) -> Any:
    """Returns a batch of Python code as eager tensors."""
    arrays = arrays_of(kind, batch, spec)
    return packed_as(spec, [tf.constant(array, leaf.dtype) for array, leaf in zip(arrays, specs_in(spec), strict=True)])
