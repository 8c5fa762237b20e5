"""Initialization of the variables on a ps, in chunks where they are large.

    session.run(initialize_ps(ps, model_variables, plan, seed))   # built after all variables

TensorFlow's initializer copies the initial value into the variable, and keeps a constant value as long as the graph.
A ps would need twice the memory, for a moment or until its end.  A large slice of a table, and its optimizer slots, are
therefore filled chunk by chunk, one variable after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.plan import Plan, Slice
from ps_train.engine.variables.trace import ModelVariables, VariableTrace
from ps_train.engine.variables.variables import ps_device, ps_index, variable_bytes
from ps_train.modeling.tables.row_allocator import scatter_rows

CHUNK_BYTES = 16 << 20
"""Bytes of one chunk; a variable of at most this size is initialized by its own initializer."""

RowInitializer = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""A function that returns the initial values of rows, given the first row and the number of rows, int64 scalars."""


def initialize_ps(ps: int, model_variables: ModelVariables, plan: Plan, seed: int) -> tf.Operation:
    """Returns the operation that initializes all variables of the default graph on one ps.

    Args:
      ps: index of the ps.
      model_variables: have the initial values.
      plan: the places of these variables.
      seed: the job's seed.
    """
    row_initializers = {
        piece.name: _slice_initializer(model_variables.variables[piece.variable], piece, seed)
        for piece in plan.slices_on(ps)
    }
    small, large = [], []
    for variable in (v for v in v1.global_variables() if ps_index(v) == ps):
        initial_rows = _row_initializer(variable, row_initializers)
        if initial_rows is None:
            small.append(variable.initializer)
        else:
            large.append((variable, initial_rows))
    done: list[tf.Operation] = []
    for variable, initial_rows in large:
        with tf.device(ps_device(ps)), tf.control_dependencies(done):  # sequential, to bound the memory
            done = [_fill_in_chunks(variable, initial_rows)]
    return tf.group(*small, *done)


def _slice_initializer(variable: VariableTrace, piece: Slice, seed: int) -> RowInitializer | None:
    if not variable.has_row_initializer:
        return None
    return lambda begin, rows: variable.initial_rows(piece.begin + begin, rows, seed)


def _row_initializer(variable: Any, by_slice: Mapping[str, RowInitializer | None]) -> RowInitializer | None:
    """Returns None for a small variable, and for an initial value that can be computed only as a whole."""
    if variable.dtype not in (tf.float32, tf.int64) or not variable.shape.is_fully_defined():
        return None
    shape = variable.shape.as_list()
    if variable_bytes(variable) <= CHUNK_BYTES:
        return None
    if variable.op.name in by_slice:
        return by_slice[variable.op.name]
    value = _constant_value(variable.initial_value.op)
    return None if value is None else lambda begin, rows: tf.fill([rows, *shape[1:]], value)


def _constant_value(op: tf.Operation) -> tf.Tensor | None:
    """Returns the value that all elements share, as in new optimizer slots, or None."""
    if op.type == "Fill":
        return op.inputs[1]
    if op.type == "Const" and len(op.get_attr("value").float_val) == 1:
        return tf.constant(op.get_attr("value").float_val[0], tf.float32)
    return None


def _fill_in_chunks(variable: Any, initial_rows: RowInitializer) -> tf.Operation:
    shape = variable.shape.as_list()
    chunk_rows = max(1, CHUNK_BYTES * shape[0] // variable_bytes(variable))

    def fill(begin: tf.Tensor) -> tf.Tensor:
        rows = tf.minimum(tf.constant(chunk_rows, tf.int64), shape[0] - begin)
        filled = scatter_rows(variable, tf.range(begin, begin + rows), initial_rows(begin, rows))
        with tf.control_dependencies([filled]):
            return begin + rows

    # Unwritten memory takes no physical memory, and the assignment hands the tensor's buffer to the variable.
    empty = tf.raw_ops.Empty(shape=shape, dtype=variable.dtype)
    assigned = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=empty)
    with tf.control_dependencies([assigned]):
        first = tf.identity(tf.constant(0, tf.int64))
    return v1.while_loop(lambda begin: begin < shape[0], fill, [first], parallel_iterations=1, back_prop=False).op
