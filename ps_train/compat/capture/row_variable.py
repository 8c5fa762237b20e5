"""The object that a model_fn is given for a variable of which it only looks up rows.

    rows = RowVariable(LookedUp("ads", dimension=16, rows=1000), root_scope)
    tf.nn.embedding_lookup(rows, ids)               # the engine fetches these rows

It is a table of the engine: only the looked-up rows travel.  In contrast to a table that a model declares, its rows
keep their natural order, as TensorFlow's tools expect of the checkpoint.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import resource_variable_base
from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.engine.variables.model_variable import ModelVariable
from ps_train.modeling.tables.distributions import constant_of, distribution_of
from ps_train.modeling.tables.row_index import row_indices
from ps_train.modeling.tables.row_source import rows_at, rows_to_differentiate, whole_table
from ps_train.modeling.tables.table import Table

_DEVIATION_OF_TRUNCATED = 0.87962566103423978
"""Standard deviation of a standard normal number within two deviations: `scipy.stats.truncnorm(-2, 2).std()`."""


def row_initializer(initializer: Any, shape: Sequence[int]) -> Any:
    """Returns an initializer for any rows of a variable, or its rows; None if its values depend on all rows.

    Args:
      initializer: the variable's initializer, as given to `get_variable`.
      shape: the shape of the variable.
    """
    if initializer is None:
        initializer = v1.glorot_uniform_initializer()
    initializer = initializer() if isinstance(initializer, type) else initializer
    if all(hasattr(initializer, name) for name in ("scale", "mode", "distribution")):
        return _scaled(initializer, shape)
    if distribution_of(initializer) is not None:
        return initializer
    values = initializer if isinstance(initializer, np.ndarray) else constant_of(initializer)
    return values.reshape(shape) if values is not None and values.size == math.prod(shape) else None


def _scaled(initializer: Any, shape: Sequence[int]) -> Any:
    """Returns the distribution of a VarianceScaling initializer for the whole shape."""
    fan_in, fan_out = (shape[0], shape[1]) if len(shape) == 2 else (shape[0], shape[0])
    fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
    variance, seed = initializer.scale / max(1.0, fans[initializer.mode]), getattr(initializer, "seed", None)
    if initializer.distribution == "uniform":
        limit = math.sqrt(3.0 * variance)
        return v1.random_uniform_initializer(-limit, limit, seed)
    if initializer.distribution == "untruncated_normal":
        return v1.random_normal_initializer(0.0, math.sqrt(variance), seed)
    return v1.truncated_normal_initializer(0.0, math.sqrt(variance) / _DEVIATION_OF_TRUNCATED, seed)


@dataclasses.dataclass(frozen=True)
class LookedUp(Table):
    """The table behind a variable of which a step reads only rows.

    Attributes:
      is_vector: True for a variable of one dimension.
      is_read_whole: True if operations that no step needs read all rows, such as a summary's.
    """

    allows_dense_updates: ClassVar[bool] = True
    has_natural_order: ClassVar[bool] = True

    is_vector: bool = False
    is_read_whole: bool = False

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row: that of a vector's rows has no dimension."""
        return () if self.is_vector else (self.dimension,)


_ResourceVariable: Any = resource_variable_base()


class RowVariable(ModelVariable, _ResourceVariable):
    """A variable that gives only rows.

    Args:
      table: the table; its name is the variable's.
      shape: the variable's shape, [rows] or [rows, dimension].
      root: the variable scope at the beginning of the model.
    """

    def __init__(self, table: Table, shape: tf.TensorShape, root: v1.VariableScope) -> None:
        with tf.init_scope(), v1.name_scope(None):
            super().__init__(table.name, tf.zeros([], name="ps_train/looked_up"))
        self._table, self._full_shape, self._root = table, shape, root

    def sparse_read(self, indices: Any, name: str | None = None) -> tf.Tensor:
        """Returns the rows at these indices, [..., dimension], or [...] of a variable with one dimension."""
        ids = tf.convert_to_tensor(indices)
        with v1.variable_scope(self._root, auxiliary_name_scope=False):
            flat = row_indices(self._table, tf.reshape(ids, [-1]), lambda wrong: (wrong, None))
            rows = rows_at(self._table, flat).rows
        last = self._full_shape.as_list()[1:]
        found = tf.reshape(rows, tf.concat([tf.shape(ids), tf.constant(last, tf.int32)], 0), name=name)
        return tf.ensure_shape(found, [*ids.shape.as_list(), *last]) if ids.shape.rank is not None else found

    def gradient_source(self) -> Any:
        """Returns the rows of this batch, or the variable itself in a trace."""
        with v1.variable_scope(self._root, reuse=v1.AUTO_REUSE, auxiliary_name_scope=False):
            return rows_to_differentiate(self._table)

    def get_shape(self) -> tf.TensorShape:
        """Returns the static shape."""
        return self._full_shape

    @property
    def shape(self) -> tf.TensorShape:
        """The static shape."""
        return self._full_shape

    @property
    def device(self) -> str:
        """The worker's device, written as no operation has it: TensorFlow's lookups then fetch only rows."""
        return f"{self._tensor.device.partition('/device:')[0]}/device:CPU:*"

    @property
    def handle(self) -> Any:
        """A tensor on the worker, for operations that must be placed with the variable."""
        return self._tensor

    def _no_whole(self, *_: Any, **__: Any) -> Any:
        raise CaptureError(f"variable {self._key} is looked up at one call of the model_fn, and read whole at another")

    def _whole(self, *_: Any, **__: Any) -> Any:
        if not getattr(self._table, "is_read_whole", False):
            self._no_whole()
        with v1.variable_scope(self._root, reuse=v1.AUTO_REUSE, auxiliary_name_scope=False):
            return whole_table(self._table)

    def __getitem__(self, key: Any) -> Any:
        """Returns a part of the whole value."""
        return self._whole()[key]

    value = read_value = as_tensor = read_value_no_copy = __tf_tensor__ = _whole
    gather_nd = initialized_value = _no_whole


def _convert(variable: RowVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return variable._whole()


tf.register_tensor_conversion_function(RowVariable, _convert, priority=50)
