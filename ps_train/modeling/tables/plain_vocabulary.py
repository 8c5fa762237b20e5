"""Open vocabularies in a plain graph: a model is traced, scored from a checkpoint or served.

    index = plain_vocabulary("users", table, width=1)       # makes the variables, once in a graph
    status = index.find(keys)

A plain graph admits no ids.  The operations of AFTER_RESTORE build the index from the restored variables.  A SavedModel
runs them when it is loaded.
"""

from __future__ import annotations

import uuid
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.unsaved_key import UnsavedKey
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.vocabulary_index import KEYS, UPDATE_COUNT, USED, RowIndex, VocabularyVariables

AFTER_RESTORE = UnsavedKey("after_restore")
"""Collection of the operations that must run after variables are restored."""

_INDICES = UnsavedKey("indices")


def plain_vocabulary(name: str, table: Table, width: int) -> RowIndex:
    """Returns the index of a table's vocabulary; its variables are in the current variable scope.

    Args:
      name: full name of the table's variable.
      table: has its groups, their rows and the expiry.
      width: numbers in a key.
    """
    indices = dict(v1.get_default_graph().get_collection(_INDICES))
    if name in indices:
        return indices[name]
    shapes = {KEYS: [table.total, width], USED: [table.total, 3], UPDATE_COUNT: [table.groups]}
    variables = VocabularyVariables(*[_zeros(f"{table.name}/{part}", shape) for part, shape in shapes.items()])
    # A unique name: two SavedModels in one process must not share it, but the signatures of one SavedModel do.
    index = RowIndex(variables, table.rows_per_group, table.expire_steps, f"ps_train/{name}/{uuid.uuid4().hex}")
    v1.add_to_collection(_INDICES, (name, index))
    v1.add_to_collection(AFTER_RESTORE, index.rebuild())
    return index


def _zeros(name: str, shape: list[int]) -> Any:
    return v1.get_variable(name, shape, tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
