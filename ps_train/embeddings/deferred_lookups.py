"""The deferred lookups of one forward call: all of them are resolved together.

    lookups = DeferredLookups()
    with rows_from(lookups):
        loss = ...
    lookups.resolve(fetch(lookups.requests()))
    tf.gradients(loss, list(lookups.rows().values()))

The module does not know the ps or the source of the rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings.deferred_tensor import DeferredTensor, depends_on
from ps_train.embeddings.row_source import LookupResult
from ps_train.embeddings.table import Table
from ps_train.errors import ModelError


@dataclasses.dataclass(frozen=True)
class FetchedRows:
    """The rows of a table that a batch needs, each once.

    Attributes:
      rows: float32 [unique, dimension].
      index: int32 [n]: index into `rows` of each requested position.
      known: bool [unique] for an open vocabulary, else None; see `row_source.LookupResult`.
    """

    rows: tf.Tensor
    index: tf.Tensor
    known: tf.Tensor | None = None


Fetch = Callable[[Mapping[str, tf.Tensor]], dict[str, FetchedRows]]
"""Maps each table's requested positions (or keys) to its rows, by the name of the table."""


class DeferredLookups:
    """A `row_source.Source` that defers the lookups of one forward call, or of one for each tower.

    Args:
      dtype: see the attribute.
      device: the device of the rows; "" for that of the first lookup.

    Attributes:
      dtype: the dtype in which the model gets the rows; they are fetched and combined in float32.
    """

    def __init__(self, dtype: tf.DType = tf.float32, device: str = "") -> None:
        self.dtype = dtype
        self._graph, self._device = v1.get_default_graph(), device
        self._rows: dict[str, DeferredTensor] = {}
        self._known: dict[str, DeferredTensor] = {}
        self._lookups: dict[str, list[tuple[tf.Tensor, DeferredTensor]]] = {}

    def __call__(self, name: str, table: Table, positions: tf.Tensor) -> LookupResult:
        """Returns deferred rows.

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
        index = DeferredTensor(tf.int32, [None])
        self._lookups.setdefault(name, []).append((positions, index))
        known = tf.gather(self._known[name].tensor, index.tensor) if table.is_open else None
        return LookupResult(tf.gather(self._rows[name].tensor, index.tensor), known)

    def requests(self) -> dict[str, tf.Tensor]:
        """Returns each table's requested positions (or keys), int64: those of its lookups in order.

        Raises:
          ModelError: ids depend on rows.
        """
        found, deferred = {}, [*self._rows.values(), *self._known.values()]
        for name, lookups in self._lookups.items():
            if any(depends_on(positions, deferred) for positions, _ in lookups):
                raise ModelError(
                    f"table {name} is looked up with ids that depend on rows of a table: all rows of a step are "
                    "fetched together, so ids must be computed from features alone."
                )
            found[name] = tf.concat([positions for positions, _ in lookups], 0)
        return found

    def resolve(self, found: Mapping[str, FetchedRows]) -> None:
        """Gives all lookups their rows, by the name of the table."""
        for name, lookups in self._lookups.items():
            self._rows[name].bind(found[name].rows)
            if name in self._known:
                self._known[name].bind(found[name].known)
            parts = [found[name].index]
            if len(lookups) > 1:
                parts = tf.split(found[name].index, [tf.shape(positions)[0] for positions, _ in lookups])
            for (_, index), part in zip(lookups, parts, strict=True):
                index.bind(part)

    def rows(self) -> dict[str, tf.Tensor]:
        """Returns the deferred rows of each table, on which the loss depends."""
        return {name: deferred.tensor for name, deferred in self._rows.items()}
