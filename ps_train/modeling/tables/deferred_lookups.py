"""The deferred lookups of one forward call: all of them are resolved together.

    lookups = DeferredLookups()
    with rows_from(lookups):
        loss = ...
    requests = lookups.requests()
    lookups.resolve(found)                  # the rows of these requests
    tf.gradients(loss, list(lookups.rows().values()))
    lookups.used()                          # which of the rows the step may update

The module does not know the ps or the source of the rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import set_input
from ps_train.modeling.tables.row_source import LookupResult
from ps_train.modeling.tables.table import Table


class DeferredTensor:
    """A tensor whose value is bound later.

    Attributes:
      tensor: the tensor, usable at once.
    """

    def __init__(self, dtype: tf.DType, shape: Sequence[int | None]) -> None:
        self.tensor = tf.identity(v1.placeholder(dtype, shape))

    def bind(self, value: tf.Tensor) -> None:
        """Binds the value, which must not depend on this tensor; see `depends_on`."""
        set_input(self.tensor.op, 0, value)


def depends_on(value: tf.Tensor, deferred: Iterable[DeferredTensor]) -> bool:
    """Returns whether a value depends on any of the deferred tensors."""
    goals = {some.tensor.op for some in deferred}
    visited, pending = {value.op}, [value.op]
    while pending:
        operation = pending.pop()
        if operation in goals:
            return True
        for before in [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]:
            if before not in visited:
                visited.add(before)
                pending.append(before)
    return False


@dataclasses.dataclass(frozen=True)
class FetchedRows:
    """The rows of a table that a batch needs, each once.

    Attributes:
      rows: float32 [unique, dimension].
      index: int32 [n]: index into `rows` of each requested position.
      known: bool [unique] for an open vocabulary, else None; see `row_source.LookupResult`.
      columns: float32 [unique, columns], what belongs to the rows beside their values; None if it was not asked for.
    """

    rows: tf.Tensor
    index: tf.Tensor
    known: tf.Tensor | None = None
    columns: tf.Tensor | None = None


Fetch = Callable[[Mapping[str, tf.Tensor]], dict[str, FetchedRows]]
"""Maps each table's requested positions (or keys) to its rows, by the name of the table."""


@dataclasses.dataclass(frozen=True)
class OfVocabularies:
    """Functions on open vocabularies on the ps, and batches in an update; see `row_source.DrawingSource`.

    `whole` gives all rows of a table by its name; None where they are not at hand.
    """

    draw: Callable[[str, int, bool], list[tf.Tensor]]
    uses: Callable[[str, tf.Tensor], tf.Tensor]
    batches_per_update: int = 1
    whole: Callable[[str], tf.Tensor] | None = None


@dataclasses.dataclass(frozen=True)
class _Lookup:
    """One lookup of a table: positions (or keys), the index into the table's rows of each, and `rows_at`'s `used`."""

    positions: tf.Tensor
    index: DeferredTensor
    used: tf.Tensor | None


class DeferredLookups:
    """A `row_source.Source` that defers the lookups of one forward call, or of one for each tower.

    Args:
      dtype: see the attribute.
      device: the device of the rows; "" for that of the first lookup.
      vocabularies: functions on open vocabularies; None if these are not at hand.

    Attributes:
      dtype: the dtype in which the model gets the rows; they are fetched and combined in float32.
    """

    def __init__(
        self, dtype: tf.DType = tf.float32, device: str = "", vocabularies: OfVocabularies | None = None
    ) -> None:
        self.dtype, self._vocabularies = dtype, vocabularies
        self._graph, self._device = v1.get_default_graph(), device
        self._rows: dict[str, DeferredTensor] = {}
        self._known: dict[str, DeferredTensor] = {}
        self._admitted_late: list[str] = []
        self._lookups: dict[str, list[_Lookup]] = {}

    def __call__(self, name: str, table: Table, positions: tf.Tensor, used: tf.Tensor | None = None) -> LookupResult:
        """Returns deferred rows; see `row_source.rows_at`.

        Raises:
          ModelError: the lookup is inside a tf.cond or a loop.
        """
        if v1.get_default_graph() is not self._graph:
            raise ModelError(f"table {name} is looked up inside a tf.cond or loop: look it up outside, before it.")
        if name not in self._rows:
            with tf.device(self._device):
                self._rows[name] = DeferredTensor(tf.float32, [None, *table.row_shape])
                if table.is_open:
                    self._known[name] = DeferredTensor(tf.bool, [None])
                    if table.admit_after > 1:  # otherwise a step admits, and so knows, each of its ids
                        self._admitted_late.append(name)
        index = DeferredTensor(tf.int32, [None])
        self._lookups.setdefault(name, []).append(_Lookup(positions, index, used))
        known = tf.gather(self._known[name].tensor, index.tensor) if table.is_open else None
        return LookupResult(tf.gather(self._rows[name].tensor, index.tensor), known)

    def draw(self, name: str, n: int, by_uses: bool) -> list[tf.Tensor]:
        """Returns drawn ids; see `row_source.DrawingSource`.

        Raises:
          ModelError: ids cannot be drawn here.
        """
        return self._at_hand(name).draw(name, n, by_uses)

    def uses(self, name: str, keys: tf.Tensor) -> tf.Tensor:
        """Returns the uses of ids; see `row_source.DrawingSource`.

        Raises:
          ModelError: they cannot be read here.
        """
        return self._at_hand(name).uses(name, keys)

    def batches_per_update(self) -> int:
        """Returns the number of batches in an update; see `row_source.DrawingSource`."""
        return 1 if self._vocabularies is None else self._vocabularies.batches_per_update

    def whole(self, name: str) -> tf.Tensor:
        """Returns all rows of a table; see `row_source.whole_table`.

        Raises:
          ModelError: they cannot be read here.
        """
        if self._vocabularies is None or self._vocabularies.whole is None:
            raise ModelError(f"table {name} is read whole outside of training: look up rows.")
        return self._vocabularies.whole(name)

    def _at_hand(self, name: str) -> OfVocabularies:
        if self._vocabularies is None or v1.get_default_graph() is not self._graph:
            raise ModelError(
                f"ids of table {name} are drawn, or their uses read, in an export, or inside a tf.cond or loop: do it "
                "outside, and only if `training` is True."
            )
        return self._vocabularies

    def requests(self) -> dict[str, tf.Tensor]:
        """Returns each table's requested positions (or keys), int64: those of its lookups in order.

        Raises:
          ModelError: ids depend on rows.
        """
        found, deferred = {}, [*self._rows.values(), *self._known.values()]
        for name, lookups in self._lookups.items():
            if any(depends_on(lookup.positions, deferred) for lookup in lookups):
                raise ModelError(
                    f"table {name} is looked up with ids that depend on rows of a table: all rows of a step are "
                    "fetched together, so ids must be computed from features alone."
                )
            found[name] = tf.concat([lookup.positions for lookup in lookups], 0)
        return found

    def resolve(self, found: Mapping[str, FetchedRows]) -> None:
        """Gives all lookups their rows, by the name of the table."""
        for name, lookups in self._lookups.items():
            self._rows[name].bind(found[name].rows)
            if name in self._known:
                self._known[name].bind(found[name].known)
            parts = [found[name].index]
            if len(lookups) > 1:
                parts = tf.split(found[name].index, [tf.shape(lookup.positions)[0] for lookup in lookups])
            for lookup, part in zip(lookups, parts, strict=True):
                lookup.index.bind(part)

    def rows(self) -> dict[str, tf.Tensor]:
        """Returns the deferred rows of each table, on which the loss depends."""
        return {name: deferred.tensor for name, deferred in self._rows.items()}

    def used(self) -> dict[str, tf.Tensor]:
        """Returns which of `rows()` the model uses, for each table of which it may leave out some.

        The rows of an open vocabulary are those of known ids: the default row replaces the others.  A row may be used
        by one lookup and not by another.

        Returns:
          Table name to float32 [unique], 1 for each used row, else 0.  Call the method after `resolve`.
        """
        with tf.device(self._device):
            found = {name: tf.cast(self._known[name].tensor, tf.float32) for name in self._admitted_late}
            for name, lookups in self._lookups.items():
                if any(lookup.used is not None for lookup in lookups):
                    found[name] = _used_rows(lookups, tf.shape(self._rows[name].tensor)[0])
            return found


def _used_rows(lookups: Sequence[_Lookup], count: tf.Tensor) -> tf.Tensor:
    """Returns 1 for each row that any of a table's lookups uses, else 0; float32 [count]."""
    index = [lookup.index.tensor for lookup in lookups]
    used = [
        tf.ones_like(index[number], tf.float32) if lookup.used is None else tf.cast(lookup.used, tf.float32)
        for number, lookup in enumerate(lookups)
    ]
    return tf.minimum(tf.math.unsorted_segment_sum(tf.concat(used, 0), tf.concat(index, 0), count), 1.0)
