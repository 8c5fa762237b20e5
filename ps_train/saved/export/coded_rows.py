"""Rows of tables in fewer bytes in an export: int8 with a scale for each row, or bfloat16.

    coded = CodedRows("int8")
    with rows_from(coded):
        outputs = model.forward(features, False)        # reads codes, and multiplies them by the scale of their row
    coded.kinds, coded.parts(values)                    # what the SavedModel has in the place of the tables

A row x has the scale s = max |x| / 127 and the codes round(x / s), so no number is off by more than s / 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues, Kind
from ps_train.modeling.tables.row_source import LookupResult, own_rows
from ps_train.modeling.tables.table import Table
from ps_train.saved.values import RowRun, parts_of

FLOAT32, INT8, BFLOAT16 = "float32", "int8", "bfloat16"
_CODES, _SCALE = "codes", "scale"
_MOST = 127
_LEAST_NUMBERS = 2
"""Numbers in a row from which on int8 saves memory: the scale of a row takes four bytes."""


class CodedRows:
    """A `row_source.Source` that reads tables in codes.

    Args:
      kind: INT8 or BFLOAT16.

    Attributes:
      kinds: key to shape and dtype of the coded tables, which the lookups have made.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._tables: list[str] = []
        self.kinds: dict[str, Kind] = {}

    def __call__(self, name: str, table: Table, positions: tf.Tensor, used: tf.Tensor | None = None) -> LookupResult:
        """Returns the rows of a lookup; see `row_source.rows_at`."""
        if self._kind == INT8 and table.dimension < _LEAST_NUMBERS:
            return own_rows(name, table, positions)
        if name not in self._tables:
            self._tables.append(name)
        with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
            dtype = tf.int8 if self._kind == INT8 else tf.bfloat16
            codes = self._variable(name, table, _CODES, [table.total, *table.row_shape], dtype)
            scale = self._variable(name, table, _SCALE, [table.total], tf.float32) if self._kind == INT8 else None

        def gather(rows: tf.Tensor) -> tf.Tensor:
            found = tf.cast(tf.gather(codes, rows), tf.float32)
            if scale is None:
                return found
            return found * tf.reshape(tf.gather(scale, rows), [-1, *[1] * len(table.row_shape)])

        return own_rows(name, table, positions, gather)

    def _variable(self, name: str, table: Table, part: str, shape: list[int], dtype: tf.DType) -> Any:
        self.kinds[f"{name}/{part}"] = (shape, dtype)
        zeros = v1.zeros_initializer()
        return v1.get_variable(f"{table.name}/{part}", shape, dtype, zeros, trainable=False, use_resource=True)

    def parts(self, values: CheckpointValues) -> Iterator[tuple[RowRun, Any]]:
        """Yields the parts of the coded tables, whose rows are read from a checkpoint; scales are whole.

        Raises:
          DamagedCheckpointError: the file is damaged.
        """
        for name in self._tables:
            key, scales = f"{name}/{_CODES}", []
            for part in parts_of(name, values.kinds[name]):
                rows = values.read(*part)
                if self._kind == BFLOAT16:
                    yield part._replace(key=key), rows.astype(tf.bfloat16.as_numpy_dtype)
                    continue
                codes, scale = coded(rows)
                scales.append(scale)
                yield part._replace(key=key), codes
            if scales:
                yield RowRun(f"{name}/{_SCALE}", 0, -1), np.concatenate(scales)


def coded(rows: Any) -> tuple[Any, Any]:
    """Returns the codes of rows, int8 [n, ...], and their scales, float32 [n]."""
    axes = tuple(range(1, rows.ndim))
    scale = (np.abs(rows).max(axes) / _MOST).astype(np.float32)
    divisors = np.where(scale > 0, scale, 1).reshape(-1, *[1] * len(axes))
    return np.clip(np.rint(rows / divisors), -_MOST, _MOST).astype(np.int8), scale


def auc_in(metrics: Mapping[str, Any]) -> str | None:
    """Returns the name of the AUC among a model's metrics: `auc`, or the first one with these letters."""
    return "auc" if "auc" in metrics else next((name for name in metrics if "auc" in name.lower()), None)
