"""Where a lookup's rows come from: the graph's own variable, unless training says otherwise.

with rows_from(lambda name, table, positions: ...):
    model.forward(...)
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings.layout import initial_rows
from ps_train.embeddings.table import Table
from ps_train.errors import ModelError

Source = Callable[[str, Table, tf.Tensor], tf.Tensor]
"""Name of the variable, its table, and positions int64 [n], to their rows float32 [n, dimension]."""

_source: contextvars.ContextVar[Source | None] = contextvars.ContextVar("source", default=None)

_DECLARED = "ps_train/tables"


@contextlib.contextmanager
def rows_from(source: Source) -> Iterator[None]:
    """All lookups within get their rows from there."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def declared(graph: tf.Graph) -> dict[str, Table]:
    """The tables that lookups have declared in a graph, by the names of their variables."""
    return dict(graph.get_collection(_DECLARED))


def rows_at(table: Table, positions: tf.Tensor) -> tf.Tensor:
    """Rows float32 [n, dimension] of positions int64 [n]."""
    scope = v1.get_variable_scope().name
    name = f"{scope}/{table.name}" if scope else table.name
    known = declared(v1.get_default_graph())
    if known.get(name, table) != table:
        raise ModelError(f"table {name} is declared twice, as {known[name]} and as {table}: declare it the same way.")
    if name not in known:
        v1.add_to_collection(_DECLARED, (name, table))
    source = _source.get()
    return source(name, table, positions) if source is not None else _own_rows(name, table, positions)


def _own_rows(name: str, table: Table, positions: tf.Tensor) -> tf.Tensor:
    def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        return initial_rows(table.initializer, 0, table.total, table.dimension, seed=0)

    with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
        variable = v1.get_variable(
            table.name, [table.total, table.dimension], tf.float32, initializer=initial, use_resource=True
        )
    return tf.gather(variable, positions)
