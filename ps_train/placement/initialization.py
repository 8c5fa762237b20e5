"""How the variables on a ps get their initial values.

    session.run(initialised(ps, traced, plan, seed))        # made when all variables are

By its own initializer a variable is a copy of its initial value, and what is constant stays as long as the graph: for a
moment, or for ever, a ps needs twice the memory.  A large slice of a table, and what optimizers keep for it, is filled
a part at a time instead, one variable after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.plan import Plan, Slice
from ps_train.placement.trace import ModelVariables, VariableTrace
from ps_train.placement.variables import ps_device, ps_index, scatter_rows, variable_bytes

PART_BYTES = 16 << 20
"""What is computed at once; smaller variables are initialised as TensorFlow does it."""

Part = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""From the first row and the number of rows, int64, to their initial values."""


def initialize_ps(ps: int, traced: ModelVariables, plan: Plan, seed: int) -> tf.Operation:
    """On one ps, all variables of the present graph."""
    drawn = {
        piece.name: _row_initializer(traced.variables[piece.variable], piece, seed) for piece in plan.slices_on(ps)
    }
    small, large = [], []
    for variable in (v for v in v1.global_variables() if ps_index(v) == ps):
        part = _part_of(variable, drawn)
        if part is None:
            small.append(variable.initializer)
        else:
            large.append((variable, part))
    done: list[tf.Operation] = []
    for variable, part in large:
        with tf.device(ps_device(ps)), tf.control_dependencies(done):  # one after the other
            done = [_fill_in_chunks(variable, part)]
    return tf.group(*small, *done)


def _row_initializer(variable: VariableTrace, piece: Slice, seed: int) -> Part | None:
    if not variable.in_parts:
        return None
    return lambda begin, rows: variable.initial_rows(piece.begin + begin, rows, seed)


def _part_of(variable: Any, drawn: Mapping[str, Part | None]) -> Part | None:
    """None where it is small, or has an initial value that can only be had as a whole."""
    if variable.dtype not in (tf.float32, tf.int64) or not variable.shape.is_fully_defined():
        return None
    shape = variable.shape.as_list()
    if variable_bytes(variable) <= PART_BYTES:
        return None
    if variable.op.name in drawn:
        return drawn[variable.op.name]
    value = _constant_value(variable.initial_value.op)
    return None if value is None else lambda begin, rows: tf.fill([rows, *shape[1:]], value)


def _constant_value(op: tf.Operation) -> tf.Tensor | None:
    """The one value of which all elements are; slots of optimizers begin so."""
    if op.type == "Fill":
        return op.inputs[1]
    if op.type == "Const" and len(op.get_attr("value").float_val) == 1:
        return tf.constant(op.get_attr("value").float_val[0], tf.float32)
    return None


def _fill_in_chunks(variable: Any, part: Part) -> tf.Operation:
    shape = variable.shape.as_list()
    step = max(1, PART_BYTES * shape[0] // variable_bytes(variable))

    def fill(begin: tf.Tensor) -> tf.Tensor:
        rows = tf.minimum(tf.constant(step, tf.int64), shape[0] - begin)
        with tf.control_dependencies([scatter_rows(variable, tf.range(begin, begin + rows), part(begin, rows))]):
            return begin + rows

    # Memory that nobody has written to is not there yet: the assignment makes the variable's alone.
    empty = tf.raw_ops.Empty(shape=shape, dtype=variable.dtype)
    assigned = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=empty)
    with tf.control_dependencies([assigned]):
        first = tf.identity(tf.constant(0, tf.int64))
    return v1.while_loop(lambda begin: begin < shape[0], fill, [first], parallel_iterations=1, back_prop=False).op
