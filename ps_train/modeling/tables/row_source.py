"""The source of a lookup's rows: the graph's own variable, or the source that training sets.

with rows_from(lambda name, table, positions, used: ...):
    model.forward(...)
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.unsaved_key import UnsavedKey
from ps_train.modeling.scratch_graph import is_scratch, no_value
from ps_train.modeling.tables.given_rows import given_rows, plain_rows
from ps_train.modeling.tables.id_initializer import check_initializer
from ps_train.modeling.tables.plain_vocabulary import plain_vocabulary
from ps_train.modeling.tables.row_order import initial_rows
from ps_train.modeling.tables.table import Table


@dataclasses.dataclass(frozen=True)
class LookupResult:
    """The result of a lookup.

    Attributes:
      rows: float32 [n, dimension].
      known: bool [n] for an open vocabulary, else None: False where the default row replaces the row.
    """

    rows: tf.Tensor
    known: tf.Tensor | None = None


Source = Callable[[str, Table, tf.Tensor, tf.Tensor | None], LookupResult]
"""Maps a variable's name, its table, positions and `used` to rows; see `rows_at`."""


@runtime_checkable
class RowSource(Protocol):
    """A Source that knows the rows of each table on which its results depend."""

    def rows(self) -> dict[str, tf.Tensor]:
        """Returns the rows by the name of their table."""


@runtime_checkable
class DrawingSource(Protocol):
    """A Source that draws ids of open vocabularies, and reads their uses, where their rows are."""

    def draw(self, name: str, n: int, by_uses: bool) -> list[tf.Tensor]:
        """Returns the draws of each ps, about n together; see `RowIndex.draw`."""

    def uses(self, name: str, keys: tf.Tensor) -> tf.Tensor:
        """Returns the uses of ids; see `RowIndex.uses`."""

    def batches_per_update(self) -> int:
        """Returns the number of batches whose ids an update counts: those of all workers and towers under `sync`."""


@runtime_checkable
class WholeSource(Protocol):
    """A Source that reads whole tables where their rows are, in the calls that need them."""

    def whole(self, name: str) -> tf.Tensor:
        """Returns all rows of a table by the name of its variable."""


_source: contextvars.ContextVar[Source | None] = contextvars.ContextVar("source", default=None)

_DECLARED = UnsavedKey("transport")
_WIDTHS = UnsavedKey("widths")


@contextlib.contextmanager
def rows_from(source: Source) -> Iterator[None]:
    """Sets the source of all lookups within the context."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def declared_tables(graph: tf.Graph) -> dict[str, Table]:
    """Returns the tables that lookups have declared in a graph, by the names of their variables."""
    return dict(graph.get_collection(_DECLARED))


def rows_at(table: Table, positions: tf.Tensor, used: tf.Tensor | None = None) -> LookupResult:
    """Returns the rows at positions int64 [n], or of keys int64 [n, width] for an open vocabulary.

    Args:
      table: declared at its first use in a graph.
      positions: the positions or keys.
      used: bool [n], whether the caller uses the row at each position; it may depend on other rows.  A training step
        does not update a row that it has fetched and not used.  None: all rows are used.

    Raises:
      ModelError: the table is declared in two ways, or used with two kinds of ids.
    """
    name = _declare(table, positions.shape[1] if table.is_open else None)
    source = _source.get()
    return source(name, table, positions, used) if source is not None else own_rows(name, table, positions)


def draw_keys(table: Table, n: int, by_uses: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws about n ids of an open vocabulary, on each ps its share.

    Args:
      table: an open vocabulary.
      n: number of draws.  Each ps makes at least one, and none while none of its ids has a row.
      by_uses: see `RowIndex.draw`.

    Returns:
      keys: int64 [n, width]; see `id_encoding.py`.  The width is that of the lookups before, else 1.
      log_q: float32 [n], logarithm of the probability of each id in one of the draws.

    Raises:
      ModelError: the table is declared in two ways, or rows are not at hand where the model is built.
    """
    name = _declare(table, None)
    width = dict(v1.get_default_graph().get_collection(_WIDTHS)).get(name, 1)
    _check_open(name, table, width)
    source = _source.get()
    if source is None:
        with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
            parts = [plain_vocabulary(name, table, width).draw(n, by_uses)]
    elif isinstance(source, DrawingSource):
        parts = source.draw(name, n, by_uses)
    else:
        raise ModelError(f"ids of table {name} are drawn outside of training: draw them only if `training` is True.")
    counts = tf.stack([tf.shape(part)[0] for part in parts])
    drawn = tf.ensure_shape(tf.concat(parts, 0), [None, width + 2])
    weight, total = drawn[:, width], drawn[:, width + 1]
    shares = tf.repeat(tf.cast(counts / tf.reduce_sum(counts), tf.float32), counts)
    weight, total = tf.cast(weight, tf.float32), tf.cast(total, tf.float32)
    return drawn[:, :width], tf.math.log(shares * weight / total)


def uses_of(table: Table, keys: tf.Tensor) -> tf.Tensor:
    """Returns the uses of ids of an open vocabulary, int64 [n, 2]; see `RowIndex.uses`.

    Raises:
      ModelError: the table is declared in two ways, or rows are not at hand where the model is built.
    """
    name = _declare(table, keys.shape[1])
    source = _source.get()
    if source is None:
        with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
            return plain_vocabulary(name, table, keys.shape[1]).uses(keys)
    if isinstance(source, DrawingSource):
        return source.uses(name, keys)
    raise ModelError(f"uses of table {name} are read outside of training: read them only if `training` is True.")


def batches_per_update() -> int:
    """Returns the number of batches whose ids an update counts; 1 outside of training."""
    source = _source.get()
    return source.batches_per_update() if isinstance(source, DrawingSource) else 1


def _declare(table: Table, width: int | None) -> str:
    """Returns the name of a table's variable.

    Args:
      table: must equal an earlier one of its name.
      width: numbers in a key of an open vocabulary.

    Raises:
      ModelError: the table is declared in two ways, or used with two kinds of ids.
    """
    scope = v1.get_variable_scope().name
    name = f"{scope}/{table.name}" if scope else table.name
    declared = declared_tables(v1.get_default_graph())
    if declared.get(name, table) != table:
        raise ModelError(
            f"table {name} is declared twice, as {declared[name]} and as {table}: declare it the same way."
        )
    if name not in declared:
        given_rows(table)  # refuses rows that do not fit
        v1.add_to_collection(_DECLARED, (name, table))
    if width is not None:
        _check_open(name, table, width)
    return name


def lookup_dtype() -> tf.DType:
    """Returns the dtype in which a lookup returns its rows: float32, unless the source has another one."""
    return getattr(_source.get(), "dtype", tf.float32)


def rows_to_differentiate(table: Table) -> Any:
    """Returns that of which a table's lookups so far are functions: the rows of this batch, or the graph's variable.

    Raises:
      ModelError: the table has not been looked up.
    """
    source = _source.get()
    found = source.rows().get(table.name) if isinstance(source, RowSource) else _variable_of(table)
    if found is None:
        raise ModelError(f"table {table.name} is differentiated before it is looked up.")
    return found


def whole_table(table: Table) -> tf.Tensor:
    """Returns all rows of a table that is looked up too, [total, dimension].

    In training they travel only in a call that fetches something that is computed from them, such as a summary.

    Raises:
      ModelError: they are not at hand where the model is built.
    """
    source = _source.get()
    if isinstance(source, WholeSource):
        scope = v1.get_variable_scope().name
        return source.whole(f"{scope}/{table.name}" if scope else table.name)
    if is_scratch():
        return no_value([table.total, *table.row_shape], tf.float32)
    return tf.convert_to_tensor(_variable_of(table))


def _check_open(name: str, table: Table, width: int) -> None:
    check_initializer(table)
    before = dict(v1.get_default_graph().get_collection(_WIDTHS)).get(name)
    if before is None:
        v1.add_to_collection(_WIDTHS, (name, width))
    elif before != width:
        raise ModelError(
            f"table {name} is given strings by one lookup and whole numbers by another: use one kind of ids, and look "
            "strings up before ids are drawn."
        )


def own_rows(
    name: str, table: Table, positions: tf.Tensor, gather: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> LookupResult:
    """Returns the rows of a lookup from a plain graph's own variable.

    Args:
      name: full name of the table's variable.
      table: its variable is made at the first lookup.
      positions: as in `rows_at`.
      gather: reads rows, int64 [n], from another place than the table's variable, which then is not made.
    """

    def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        if is_scratch():
            return no_value(shape, tf.float32)
        begin = partition_info.var_offset[0] if partition_info is not None else 0
        source, count = given_rows(table), int(shape[0])
        if source is not None:
            return plain_rows(table, source, begin, count)
        rows = initial_rows(table.first_initializer, begin, count, table.dimension, seed=0)
        return tf.reshape(rows, [count, *table.row_shape])

    with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
        if gather is None:
            gather = functools.partial(tf.gather, _variable_of(table, initial))
        if not table.is_open:
            return LookupResult(gather(positions))
        status = plain_vocabulary(name, table, positions.shape[1]).find(positions)
    return LookupResult(gather(tf.maximum(status.row, 0)), status.alive)


def _variable_of(table: Table, initial: Any = None) -> Any:
    return v1.get_variable(
        table.name, [table.total, *table.row_shape], tf.float32, initializer=initial, use_resource=True
    )
