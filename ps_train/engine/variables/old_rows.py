"""Old values of the rows of large tables, kept on their ps while a checkpoint is written (copy on write).

    old = OldRows("ads/part_0", [table, accumulator])
    kept = keep_old_rows(0, [(old, rows)])      # in an update, under the mutex of ps 0, before it writes these rows
    session.run([old.prepare(after=[]), cut(0)])    # the values of this moment are to be read, while updates go on
    values = old.read(begin, end)               # these rows of each variable, as they were at the cut

An update is told by the variable `cut` of its ps that a checkpoint is being written.  It then keeps the rows that it is
about to write, unless they are read or kept already.  Without a cut this costs the update one operation, for any number
of tables.

A read needs no mutex.  It first copies the present rows and then looks which of them are kept: a row is kept before it
is written, so a row that is not kept by then had its old value when it was copied.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.plan import Plan
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import ps_device

COPIED_BYTES = 32 << 20
"""Bytes of small tables on a ps that are copied at the cut, which takes some 10 ms; larger tables are kept row by row.

The optimizers' slots of these tables are not counted."""

_SPARE_ROWS = 1 << 16
"""Least number of places more than rows: an update that is cancelled at the wrong moment loses some."""


def tables_copied_on_write(model_variables: ModelVariables, plan: Plan) -> frozenset[str]:
    """Returns the names of the slices of tables whose old rows are kept; all others are copied.

    Args:
      model_variables: say which variables are tables.
      plan: the slices of all variables.
    """
    found = set()
    strict = [name for name, table in model_variables.tables_by_name().items() if not table.allows_dense_updates]
    for ps in range(plan.num_ps):
        pieces = [piece for piece in plan.slices_on(ps) if piece.variable in strict and piece.dtype == "float32"]
        sizes = {
            piece.name: sum(
                other.bytes
                for other in plan.slices_on(ps)
                if other.variable == piece.variable or other.variable.startswith(f"{piece.variable}/")
            )
            for piece in pieces
        }
        copied = 0
        for name in sorted(sizes, key=lambda name: (sizes[name], name)):
            copied += sizes[name]
            if copied > COPIED_BYTES:
                found.add(name)
    return frozenset(found)


def cut(ps: int) -> tf.Operation:
    """Returns the operation that fixes the values to be read on a ps: those that the variables have now."""
    with tf.device(ps_device(ps)):
        return tf.raw_ops.AssignVariableOp(resource=_cut(ps), value=True)


def end_cut(ps: int) -> tf.Operation:
    """Returns the operation after which no update of a ps keeps rows, nor is about to."""
    with tf.device(ps_device(ps)):
        return with_mutex(mutex_of(ps), [], lambda: ([tf.raw_ops.DestroyResourceOp(resource=_cut(ps))], None))[0]


def keep_old_rows(ps: int, pairs: Sequence[tuple[OldRows, tf.Tensor]]) -> tf.Operation:
    """Returns the operation that keeps rows which an update is about to write; under the mutex, on the ps's device.

    Args:
      ps: index of the ps.
      pairs: the tables, each with the rows (int32 or int64 [n], not necessarily distinct).
    """

    def keep(*inputs: tf.Tensor) -> None:
        handles = iter(inputs[len(pairs) :])
        for (old, _), rows in zip(pairs, inputs, strict=False):
            old.keep(rows, handles)

    def keep_nothing(*inputs: tf.Tensor) -> None:
        pass

    handles = [variable.handle for old, _ in pairs for variable in old.variables]
    given = [*[tf.cast(rows, tf.int64) for _, rows in pairs], *handles]
    specs = [tf.TensorSpec([None], tf.int64)] * len(pairs) + [tf.TensorSpec([], tf.resource)] * len(handles)

    def branch(body: Any) -> Any:
        return tf.function(body, input_signature=specs, autograph=False).get_concrete_function()

    # TensorFlow does not put the branches of this operation into the graph.  So none of their nodes runs, or has to be
    # skipped, where no checkpoint is written.
    return tf.raw_ops.If(
        cond=tf.raw_ops.VarIsInitializedOp(resource=_cut(ps)),
        input=given,
        Tout=[],
        then_branch=branch(keep),
        else_branch=branch(keep_nothing),
    )


class _Stored(NamedTuple):
    """The handles of the variables that have the old rows of some variables.

    Attributes:
      values: for each variable its old rows, [places, ...].
      places: the place of each row among the old rows; int32 [rows], -1 for none.
      counts: the first row that may still be read, and the number of places that are taken; int64 [2].
    """

    values: list[tf.Tensor]
    places: tf.Tensor
    counts: tf.Tensor


class OldRows:
    """The old rows of some variables, which have the same rows and of which an update always writes the same ones.

    Args:
      name: unique on the ps.
      variables: the variables, on one ps, each [rows, ...].

    Attributes:
      name: see above.
      rows: number of rows.
      row_bytes: bytes of a row of all variables together.
    """

    def __init__(self, name: str, variables: Sequence[Any]) -> None:
        self.name, self.variables = name, variables
        self.rows = int(variables[0].shape[0])
        self.row_bytes = sum(math.prod(one.shape[1:].as_list()) * int(one.dtype.size) for one in variables)

    @property
    def device(self) -> str:
        """The device of the variables."""
        return str(self.variables[0].device)

    @functools.cached_property
    def _stored(self) -> _Stored:
        """The handles in the graph of the step."""
        with tf.device(self.device), tf.control_dependencies(None):
            return self._handles()

    def _handles(self) -> _Stored:
        """Adds handles to the present graph."""
        stored = f"ps_train/old_rows/{self.name}"
        values = [
            tf.raw_ops.VarHandleOp(
                dtype=one.dtype.base_dtype, shape=self._stored_shape(one), shared_name=f"{stored}/values_{number}"
            )
            for number, one in enumerate(self.variables)
        ]
        places = tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[self.rows], shared_name=f"{stored}/places")
        counts = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[2], shared_name=f"{stored}/counts")
        return _Stored(values, places, counts)

    def _stored_shape(self, variable: Any) -> list[int]:
        return [self.rows + max(_SPARE_ROWS, self.rows // 8), *variable.shape.as_list()[1:]]

    def prepare(self, after: Sequence[tf.Operation]) -> tf.Operation:
        """Returns the operation that makes room for old rows; to run before each cut, and while there is none."""
        stored = self._stored
        with tf.device(self.device), tf.control_dependencies(after):
            # Memory that is not written takes no physical memory, and the assignment takes over the tensor.
            return tf.group(
                *[
                    tf.raw_ops.AssignVariableOp(
                        resource=values,
                        value=tf.raw_ops.Empty(shape=self._stored_shape(one), dtype=one.dtype.base_dtype),
                    )
                    for values, one in zip(stored.values, self.variables, strict=True)
                ],
                tf.raw_ops.AssignVariableOp(resource=stored.places, value=tf.fill([self.rows], -1)),
                tf.raw_ops.AssignVariableOp(resource=stored.counts, value=tf.zeros([2], tf.int64)),
            )

    def drop(self, after: Sequence[tf.Operation]) -> tf.Operation:
        """Returns the operation that frees the memory, if there is any; to run while there is no cut."""
        stored = self._stored
        with tf.device(self.device), tf.control_dependencies(after):
            handles = (*stored.values, stored.places, stored.counts)
            return tf.group(*[tf.raw_ops.DestroyResourceOp(resource=one) for one in handles])

    def kept_bytes(self) -> tf.Tensor:
        """Returns the bytes of all kept rows, int64 scalar."""
        with tf.device(self.device):
            return tf.raw_ops.ReadVariableOp(resource=self._stored.counts, dtype=tf.int64)[1] * self.row_bytes

    def keep(self, rows: tf.Tensor, handles: Iterator[tf.Tensor]) -> None:
        """Adds the operations that keep rows (int64 [n]) to the present graph; `handles` are those of the variables."""
        stored, places, counts = self._handles()
        read, taken = tf.unstack(tf.raw_ops.ReadVariableOp(resource=counts, dtype=tf.int64), 2)
        kept = tf.raw_ops.ResourceGather(resource=places, indices=rows, dtype=tf.int32)
        kept.set_shape([None])
        rows, _ = tf.unique(tf.gather(rows, tf.where((kept < 0) & (rows >= read))[:, 0]))
        count = tf.size(rows, tf.int64)
        place = taken + tf.range(count)
        copied = [
            tf.raw_ops.ResourceScatterUpdate(
                resource=values,
                indices=place,
                updates=tf.raw_ops.ResourceGather(resource=next(handles), indices=rows, dtype=one.dtype.base_dtype),
            )
            for values, one in zip(stored, self.variables, strict=True)
        ]
        # A call may be cancelled anywhere: a place is taken before a row has it, and has its values before that.
        with tf.control_dependencies(copied):
            taken = tf.raw_ops.ResourceScatterAdd(resource=counts, indices=[1], updates=count[tf.newaxis])
        with tf.control_dependencies([taken]):
            tf.raw_ops.ResourceScatterUpdate(resource=places, indices=rows, updates=tf.cast(place, tf.int32))

    def read(self, begin: tf.Tensor, end: tf.Tensor) -> list[tf.Tensor]:
        """Returns rows of each variable as they were at the cut; parts of a table must be read in their order.

        Args:
          begin: int32 scalar, the first row.
          end: int32 scalar, the row after the last one.
        """
        with tf.device(self.device):
            rows = tf.range(begin, end)
            values = [variable.sparse_read(rows) for variable in self.variables]
            with tf.control_dependencies(values):
                kept = tf.raw_ops.ResourceGather(resource=self._stored.places, indices=rows, dtype=tf.int32)
            which = tf.where(tf.reshape(kept, [-1]) >= 0)
            place = tf.gather_nd(kept, which)
            old = [
                tf.raw_ops.ResourceGather(resource=stored, indices=place, dtype=one.dtype.base_dtype)
                for stored, one in zip(self._stored.values, self.variables, strict=True)
            ]
            values = [tf.tensor_scatter_nd_update(*one) for one in zip(values, [which] * len(old), old, strict=True)]
            # Rows before the first one are read for good.  These may be read again, if a task refuses the call.
            first = tf.cast(begin, tf.int64)[tf.newaxis]
            moved = tf.raw_ops.ResourceScatterUpdate(resource=self._stored.counts, indices=[0], updates=first)
            with tf.control_dependencies([moved]):
                return [tf.identity(value) for value in values]


def _cut(ps: int) -> tf.Tensor:
    """Returns the variable that exists between the cut and the end of the write."""
    return tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[], shared_name=f"ps_train/cut_{ps}")
