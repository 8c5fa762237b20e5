"""The function `lookup` that models call to turn ids into rows.

It handles dense, ragged and sparse ids, and combines rows.  It does not know where the rows are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.data.named_inputs import input_name
from ps_train.data.stream import assertion
from ps_train.modeling.tables.id_encoding import encode_ids
from ps_train.modeling.tables.row_index import LocateId, row_indices
from ps_train.modeling.tables.row_order import positions_of
from ps_train.modeling.tables.row_source import lookup_dtype, rows_at
from ps_train.modeling.tables.table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack


COMBINERS = ("sum", "mean", "sqrtn")


def combine(
    rows: tf.Tensor, segments: tf.Tensor, count: tf.Tensor, combiner: str, weights: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the combined row of each bag, float32 [count, dimension].

    It is the sum of the weighted rows, divided by 1 ("sum"), by the sum of the weights ("mean"), or by the root of the
    sum of their squares ("sqrtn").

    Args:
      rows: float32 [n, dimension].
      segments: int64 [n], the bag of each row.
      count: number of bags.
      combiner: one of COMBINERS.
      weights: float32 [n]; None means 1 for all.
    """
    sums = tf.math.unsorted_segment_sum(rows if weights is None else rows * weights[:, tf.newaxis], segments, count)
    if combiner == "sum":
        return sums
    if weights is None:
        weights = tf.ones(tf.shape(rows)[:1])
    squares = combiner == "sqrtn"
    norms = tf.math.unsorted_segment_sum(tf.square(weights) if squares else weights, segments, count)
    return tf.math.divide_no_nan(sums, (tf.sqrt(norms) if squares else norms)[:, tf.newaxis])


_COMBINERS = ", ".join(COMBINERS)


class Declaration(TypedDict, total=False):
    """The arguments of a `Table` without its name."""

    dimension: int
    rows: int | Sequence[int] | None
    hash_buckets: int | Sequence[int] | None
    initializer: Any
    oov: str
    capacity: int | None
    admit_after: int
    expire_steps: int | None


def lookup(
    table: Table | str,
    ids: Any,
    combiner: str | None = None,
    weights: Any = None,
    **declaration: Unpack[Declaration],
) -> tf.Tensor:
    """Returns the rows of ids, float32 [batch, dimension]; [batch, n, dimension] for ids [batch, n] without a combiner.

    In training with another --compute_dtype the rows are combined in float32 and then cast to that dtype.

    Args:
      table: a Table, or the name of one that the keyword arguments declare.
      ids: whole numbers or strings: a tensor [batch] or [batch, n], or a RaggedTensor or SparseTensor [batch, any].
        A table with a list of sizes needs a tensor [batch, number of fields].
      combiner: "sum", "mean" or "sqrtn" (the sum over the root of the sum of the squared weights) of an example's rows;
        an example without ids gets zeros.  Ragged and sparse ids need a combiner.
      weights: weights of combined ids, in the same kind and shape as ids.
      **declaration: declares the table of a name: `dimension` and one of `rows`, `hash_buckets` and `capacity`, and if
        needed `initializer`, `oov`, `admit_after` and `expire_steps`.  `Table` describes them.

    Raises:
      ModelError: table, ids, combiner or weights do not fit together.
      DataError: an id is out of range; raised when the batch is read, which ends the job.
    """
    if isinstance(table, str):
        if declaration.get("dimension") is None:
            raise ModelError(f"lookup of table {table} has no dimension: declare it, or pass an embeddings.Table.")
        table = Table(table, **declaration)
    elif declaration:
        raise ModelError(
            f"lookup of table {table.name} is given a Table and its declaration: leave the declaration out."
        )
    if combiner is not None and combiner not in COMBINERS:
        raise ModelError(f"lookup of table {table.name} has combiner={combiner}: use one of {_COMBINERS}.")
    if weights is not None and combiner is None:
        raise ModelError(f"lookup of table {table.name} has weights but no combiner: give one of {_COMBINERS}.")
    if isinstance(ids, tf.RaggedTensor | tf.SparseTensor):
        return tf.cast(_lookup_bags(table, ids, combiner, weights), lookup_dtype())
    return tf.cast(_lookup_dense(table, tf.convert_to_tensor(ids), combiner, weights), lookup_dtype())


def _lookup_dense(table: Table, ids: tf.Tensor, combiner: str | None, weights: Any) -> tf.Tensor:
    rank = ids.shape.rank
    if rank not in (1, 2) or (rank == 1 and (combiner is not None or table.by_field)):
        raise ModelError(f"table {table.name} is given {_shaped(ids)}: use {_allowed(table, combiner)}.")
    if table.by_field and ids.shape[1] != len(table.sizes):
        raise ModelError(
            f"table {table.name} is given {_shaped(ids)}, but has {len(table.sizes)} sizes: "
            "give as many sizes as there are fields."
        )
    found = _rows(table, ids, lambda index: (index[:, 0], index[:, 1]) if rank == 2 else (index, None))
    shape = tf.shape(ids)
    if combiner is None:
        found = tf.reshape(found, tf.concat([shape, [table.dimension]], 0))
        return tf.ensure_shape(found, [*ids.shape.as_list(), table.dimension])
    if weights is not None:
        if isinstance(weights, tf.RaggedTensor | tf.SparseTensor):
            raise ModelError(f"table {table.name} is given {_kind(weights)} weights for ids of a tensor: use a tensor.")
        weights = _like(table, weights, ids)
        weights = tf.reshape(_checked(table, weights, tf.shape(weights), tf.shape(ids)), [-1])
    segments = tf.repeat(tf.range(shape[0]), shape[1])
    return tf.ensure_shape(combine(found, segments, shape[0], combiner, weights), [ids.shape[0], table.dimension])


def _lookup_bags(table: Table, ids: Any, combiner: str | None, weights: Any) -> tf.Tensor:
    if combiner is None:
        raise ModelError(
            f"table {table.name} is given {type(ids).__name__} ids without a combiner: use one of {_COMBINERS}."
        )
    if table.by_field or ids.shape.rank != 2:
        raise ModelError(f"table {table.name} is given {_shaped(ids)}: use {_allowed(table, combiner)}.")
    ragged = isinstance(ids, tf.RaggedTensor)
    segments = tf.cast(ids.value_rowids() if ragged else ids.indices[:, 0], tf.int64)
    count = ids.nrows() if ragged else ids.dense_shape[0]
    found = _rows(table, ids.values, lambda index: (tf.gather_nd(segments, index), None))
    if weights is not None:
        weights = _of_bags(table, weights, ids)
    return combine(found, segments, count, combiner, weights)


def rows_of_keys(table: Table, keys: tf.Tensor) -> tf.Tensor:
    """Returns the rows of keys, float32 [n, dimension], in the dtype of `lookup`.

    Args:
      table: with `capacity`, or with rows by index.
      keys: int64 [n, width] for an open vocabulary (`id_encoding.py`), else row indices, int64 [n].
    """
    return tf.cast(_rows_of_keys(table, keys), lookup_dtype())


def _rows(table: Table, ids: tf.Tensor, locate: LocateId) -> tf.Tensor:
    """Returns the rows of ids of any shape, float32 [number of ids, dimension]."""
    if table.is_open:
        return _rows_of_keys(table, encode_ids(table, tf.reshape(ids, [-1])))
    return _rows_of_keys(table, tf.reshape(row_indices(table, ids, locate), [-1]))


def _rows_of_keys(table: Table, keys: tf.Tensor) -> tf.Tensor:
    if not table.is_open:
        return rows_at(table, positions_of(keys, table.total)).rows
    found = rows_at(table, keys)
    is_default_used = tf.reduce_any(tf.logical_not(found.known), keepdims=True)
    default = rows_at(table.default, tf.zeros([1], tf.int64), is_default_used).rows
    return tf.where(tf.expand_dims(found.known, 1), found.rows, default)


def _of_bags(table: Table, weights: Any, ids: Any) -> tf.Tensor:
    """Returns the weight of each id of a RaggedTensor or SparseTensor, float32 [n]."""
    if isinstance(weights, type(ids)):
        places, of_ids = (one.row_splits if isinstance(ids, tf.RaggedTensor) else one.indices for one in (weights, ids))
        return _checked(table, _like(table, weights.values, ids.values), places, of_ids, of=weights)
    if isinstance(weights, tf.RaggedTensor | tf.SparseTensor):
        raise ModelError(f"table {table.name} is given {_kind(weights)} weights for {_kind(ids)} ids: use one kind.")
    weights = _like(table, weights, ids.values)
    return _checked(table, weights, tf.shape(weights), tf.shape(ids.values))


def _like(table: Table, weights: Any, ids: tf.Tensor) -> tf.Tensor:
    weights = tf.convert_to_tensor(weights)
    if not weights.shape.is_compatible_with(ids.shape):
        raise ModelError(f"table {table.name} is given weights of shape {weights.shape} for ids of shape {ids.shape}.")
    return weights


def _checked(table: Table, weights: tf.Tensor, places: tf.Tensor, of_ids: tf.Tensor, of: Any = None) -> tf.Tensor:
    """Returns weights, float32, after an assertion that they have the places of the ids.

    Args:
      table: named in the error.
      weights: one for each id.
      places: the places of the weights: a shape, row splits or indices.
      of_ids: those of the ids.
      of: what the user gave; None: the weights themselves.
    """
    name = input_name(weights if of is None else of.values)
    parts = [
        f"table {table.name}: the weights{f' ({name})' if name else ''} have lists of other lengths than the ids: "
        "give each id of an example a weight."
    ]
    places, of_ids = tf.cast(places, tf.int64), tf.cast(of_ids, tf.int64)
    are_same = tf.raw_ops.Equal(x=places, y=of_ids, incompatible_shape_error=False)  # a scalar for other shapes
    with tf.control_dependencies([assertion(tf.reshape(are_same, [-1]), parts)]):
        return tf.cast(tf.identity(weights), tf.float32)


def _kind(value: Any) -> str:
    return "ragged" if isinstance(value, tf.RaggedTensor) else "sparse"


def _shaped(ids: Any) -> str:
    """Returns ids for an error: "ids of shape (None, 2, 2) (feature age)"."""
    name = input_name(ids if isinstance(ids, tf.Tensor) else ids.values)
    return f"ids of shape {ids.shape}" + (f" ({name})" if name else "")


def _allowed(table: Table, combiner: str | None) -> str:
    if table.by_field:
        return f"a tensor [batch, {len(table.sizes)}], since the table has {len(table.sizes)} sizes"
    return "[batch, n]" if combiner is not None else "[batch] or [batch, n]"
