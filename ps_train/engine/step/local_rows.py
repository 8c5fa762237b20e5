"""The rows of tables that a worker trains in a round, with their slots.

    rows = LocalRows(exchange, tables)
    found = rows.fetch({"ads": positions})              # in a local step: the rows of its batch
    rows.pulled(ids, reads, after)                      # at the beginning of a round: those of all its batches
    differences, beside = rows.changed()                # at its end

A row is pulled once for all batches of a round.  On the worker, rows are numbered in the order in which they came; the
ids of all batches, one after the other, have a list of these numbers, of which each local step uses the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.base.private_tf import rename_variable
from ps_train.engine.transport.beside_rows import SLOTS, USES, flat_rows
from ps_train.engine.transport.row_exchange import RowExchange, RowRead
from ps_train.engine.transport.vocabulary import Vocabulary
from ps_train.engine.variables.worker_state import growing_variable, local_variable
from ps_train.modeling.tables.deferred_lookups import FetchedRows
from ps_train.modeling.tables.id_encoding import unique as unique_keys
from ps_train.modeling.tables.table import Table

_CPU = "/device:CPU:0"


class LocalRows:
    """The rows of a round; make it in the worker's device scope.

    Args:
      exchange: pulls and pushes the rows.
      tables: the model's tables by their names.

    Attributes:
      variables: table name to the present rows, float32 [n, …].
      ids: after `fetch`, table name to the ids of the step's batch, each once.
      places: after `fetch`, table name to the numbers of their rows, int32 [n].
    """

    def __init__(self, exchange: RowExchange, tables: Mapping[str, Table]) -> None:
        self._exchange = exchange
        self._tables = {name: _TableRows(name, table) for name, table in tables.items()}
        self.variables = {name: one.rows for name, one in self._tables.items()}
        self.ids: dict[str, tf.Tensor] = {}
        self.places: dict[str, tf.Tensor] = {}
        if tables:
            exchange.keep()

    def fetch(self, requests: Mapping[str, tf.Tensor]) -> dict[str, FetchedRows]:
        """Returns the rows of a step's batch; see `deferred_lookups.Fetch`."""
        found = {}
        for name, requested in requests.items():
            distinct = tf.unique(requested) if requested.shape.rank == 1 else unique_keys(requested)
            self.ids[name], index = distinct[0], distinct[1]
            found[name] = self._tables[name].fetch(self.ids[name], index)
            self.places[name] = self._tables[name].place
        return found

    def read(self) -> list[tf.Tensor]:
        """Returns what a step has read, before which nothing may be changed."""
        return [tensor for one in self._tables.values() for tensor in one.read]

    def passed(self) -> list[tf.Operation]:
        """Returns the operations after which the next step uses the next rows."""
        return [one.passed() for one in self._tables.values()]

    def used(self) -> list[tf.Operation]:
        """Returns the operations that count the uses of a step whose gradient is used."""
        return [op for one in self._tables.values() for op in one.used()]

    def with_slots(self, slots_of: Callable[[str], Sequence[Any]]) -> None:
        """Takes the slots on the worker of each table, by its name."""
        for name, one in self._tables.items():
            one.with_slots(slots_of(name))

    def pulled(
        self, ids: Mapping[str, tf.Tensor], reads: Mapping[str, RowRead], after: Sequence[tf.Tensor]
    ) -> list[tf.Operation]:
        """Returns the operations that pull the rows of a round.

        Args:
          ids: table name to the ids of all batches, one after the other.
          reads: how the slices' rows and slots are read on the ps.
          after: one tensor on each ps, after which it reads.
        """
        if not self._tables:
            return []
        found = self._exchange.pull(ids, after, reads)
        assigned = [op for name, one in self._tables.items() for op in one.pulled(found[name])]
        return [*assigned, *self._exchange.kept()]

    def changed(self) -> tuple[dict[str, tf.Tensor], dict[str, dict[str, tf.Tensor]]]:
        """Returns the differences `start - now` of the rows, and of a kind what travels beside them, by table."""
        differences: dict[str, tf.Tensor] = {}
        beside: dict[str, dict[str, tf.Tensor]] = {SLOTS: {}, USES: {}}
        for name, one in self._tables.items():
            differences[name] = one.changed()
            if one.slots:
                beside[SLOTS][name] = one.added()
            if one.is_open:
                beside[USES][name] = one.uses()
        return differences, beside


class _TableRows:
    """The rows of one table."""

    read: Sequence[tf.Tensor] = ()
    slots: Sequence[Any] = ()

    def __init__(self, name: str, table: Table) -> None:
        self._table, self._shape = table, [*table.row_shape]
        self.is_open = table.is_open
        self.rows = growing_variable(f"ps_train/now/{name}", tf.float32, self._shape)
        rename_variable(self.rows, name)
        self._start = growing_variable(f"ps_train/start/{name}", tf.float32, self._shape)
        with tf.device(_CPU):
            self._places = growing_variable(f"ps_train/places/{name}", tf.int32)
            self._next = local_variable(f"ps_train/next_place/{name}", [], tf.int32)
            if self.is_open:
                self._uses = growing_variable(f"ps_train/uses/{name}", tf.int32)
                self._missing = growing_variable(f"ps_train/missing/{name}", tf.int32)

    def fetch(self, ids: tf.Tensor, index: tf.Tensor) -> FetchedRows:
        with tf.device(_CPU):
            begin = self._next.read_value()
            self._end = begin + tf.shape(ids)[0]
            self.place = self._places.read_value()[begin : self._end]
            # An id is known from the step on that would admit it, as if each step were an update of its own.
            known = None
            if self.is_open:
                known = self._uses.sparse_read(self.place) + 1 >= self._missing.sparse_read(self.place)
        rows = self.rows.sparse_read(self.place)
        self.read = [rows, self.place, *([] if known is None else [known])]
        return FetchedRows(rows, index, known)

    def passed(self) -> tf.Operation:
        with tf.device(_CPU):
            return self._next.assign(self._end, read_value=False)

    def used(self) -> list[tf.Operation]:
        if not self.is_open:
            return []
        with tf.device(_CPU):
            ones = tf.ones_like(self.place)
            return [tf.raw_ops.ResourceScatterAdd(resource=self._uses.handle, indices=self.place, updates=ones)]

    def with_slots(self, slots: Sequence[Any]) -> None:
        self.slots = slots
        self._slots_at_start = [
            growing_variable(f"{slot.op.name}_at_start", slot.dtype.base_dtype, slot.shape[1:].as_list())
            for slot in slots
        ]

    def pulled(self, found: FetchedRows) -> list[tf.Operation]:
        values = [(variable, found.rows) for variable in (self.rows, self._start)]
        if found.columns is not None:
            widths = [int(slot.shape[1:].num_elements()) for slot in self.slots]
            *parts, left = tf.split(found.columns, [*widths, found.columns.shape[1] - sum(widths)], axis=1)
            for slot, start, part in zip(self.slots, self._slots_at_start, parts, strict=True):
                value = tf.reshape(part, tf.stack([tf.shape(part)[0], *slot.shape[1:].as_list()]))
                values += [(slot, value), (start, value)]
        done = [variable.assign(value, read_value=False) for variable, value in values]
        with tf.device(_CPU):
            done.append(self._places.assign(found.index, read_value=False))
            done.append(self._next.assign(tf.zeros_like(self._next), read_value=False))
            if self.is_open:
                missing = tf.cast(left[:, 0], tf.int32)
                done.append(self._missing.assign(missing, read_value=False))
                done.append(self._uses.assign(tf.zeros_like(missing), read_value=False))
        return done

    def changed(self) -> tf.Tensor:
        """Returns the difference of the rows, float32 [n, …]."""
        return self._start.read_value() - self.rows.read_value()

    def added(self) -> tf.Tensor:
        """Returns what was added to the slots, float32 [n, columns]."""
        pairs = zip(self.slots, self._slots_at_start, strict=True)
        return tf.concat([flat_rows(now.read_value() - start.read_value()) for now, start in pairs], 1)

    def uses(self) -> tf.Tensor:
        """Returns how many steps of the round have used each row, float32 [n]."""
        with tf.device(_CPU):
            return tf.cast(self._uses.read_value(), tf.float32)


def slot_of_any_length(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    """Makes an optimizer's variable, as the getter of a variable scope; those of rows are empty until a pull."""
    shape, initial = tf.TensorShape(kwargs.get("shape")), kwargs.get("initializer")
    if isinstance(initial, tf.Tensor):  # slots of zeros are given as such where their number is not known
        shape = initial.shape
    if not shape.rank or shape[0] is not None:
        return getter(name, *args, **kwargs)
    return growing_variable(name, kwargs.get("dtype") or tf.float32, shape[1:].as_list())


def row_read(variable: Any, slots: Sequence[Any]) -> RowRead:
    """Returns how the rows of a slice and their slots are read together; without columns if there are no slots."""

    def read(indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return variable.sparse_read(indices), tf.concat([flat_rows(one.sparse_read(indices)) for one in slots], 1)

    return read


def ahead_read(vocabulary: Vocabulary, slots: Sequence[Any]) -> RowRead:
    """Returns how the rows of a slice with an open vocabulary are read for several steps."""
    return lambda keys: vocabulary.read_ahead(keys, slots)
