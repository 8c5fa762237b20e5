"""Open vocabularies in a plain graph: what is known of ids when a model is traced, scored from a checkpoint or served.

    known = known_in_graph(table, width=1)          # makes the variables, once
    seen = known.look(words)

Nothing is admitted here.  The map is made of the variables by the operations of AFTER_RESTORE, to be run when they have
their values; a SavedModel does so when it is loaded.
"""

from __future__ import annotations

import uuid
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings.index import CLOCK, KEYS, USED, RowIndex, VocabularyVariables
from ps_train.embeddings.table import Table

AFTER_RESTORE = "ps_train/after_restore"
"""Collection of the operations that compute what follows from variables that were given values from elsewhere."""

_INDICES = "ps_train/indices"


def plain_vocabulary(name: str, table: Table, width: int) -> RowIndex:
    """Of the table whose variable has that name, in the present variable scope."""
    indices = dict(v1.get_default_graph().get_collection(_INDICES))
    if name in indices:
        return indices[name]
    shapes = {KEYS: [table.total, width], USED: [table.total, 3], CLOCK: [table.groups]}
    book = VocabularyVariables(**{part: _zeros(f"{table.name}/{part}", shape) for part, shape in shapes.items()})
    # A name of its own: two SavedModels in one process must not share it, but the signatures of one do.
    index = RowIndex(book, table.rows_per_group, table.expire_steps, f"ps_train/{name}/{uuid.uuid4().hex}")
    v1.add_to_collection(_INDICES, (name, index))
    v1.add_to_collection(AFTER_RESTORE, index.rebuild())
    return index


def _zeros(name: str, shape: list[int]) -> Any:
    return v1.get_variable(name, shape, tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
