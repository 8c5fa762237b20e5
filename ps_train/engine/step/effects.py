"""Search for operations with side effects, which must run in the order of the steps, and of a step's towers.

A side effect is one that a later step may see.  TensorFlow declares which operations are stateful.  Some of them have
no such effect: random operations, checks, and the arrays and stacks of loops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import replace_control_inputs
from ps_train.engine.transport.dense import BEGUN
from ps_train.engine.transport.model_state import loading_state
from ps_train.engine.variables.copied_functions import FunctionLibrary

_CALLS = ("If", "While", "Case", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "For")
"""Operations that call functions; they have a side effect only if a called function has one."""

_HARMLESS = ("Assert", "Placeholder", "TensorArray", "Stack", "VarHandleOp", "IteratorV2", "_")
"""Prefixes of the types of stateful operations whose order does not matter."""

_READS = ("ReadVariableOp", "ResourceGather", "VariableShape", "LookupTableFind", "LookupTableSize")
"""Prefixes of the types of operations that only read a resource; their order matters if another operation writes."""


def ancestors(targets: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Returns all operations that run when the targets run, in the order of the graph."""
    found: dict[str, tf.Operation] = {}
    pending = list(targets)
    while pending:
        op = pending.pop()
        if op.name not in found:
            found[op.name] = op
            if not is_shared(op):
                pending += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return [op for op in targets[0].graph.get_operations() if op.name in found]


def is_shared(op: tf.Operation) -> bool:
    """Returns True for an operation that all steps share: resources, constants, and the signal that a call has begun.

    Resources are variables, queues and iterators.
    """
    if op.name.rpartition("/")[2].startswith(BEGUN):
        return True
    if op.inputs or op.control_inputs:
        return False
    return op.type == "Const" or any(tensor.dtype == tf.resource for tensor in op.outputs)


def wait_for_no_state(targets: Sequence[tf.Operation]) -> None:
    """Lets operations run without the model's state: all that a model makes waits for it, also what needs none of it.

    Args:
      targets: the operations, such as those that find the ids of tables, or that fill a lookup table.
    """
    loading = {op.name for op in loading_state()}
    for op in ancestors(targets) if loading and targets else ():
        kept = [one for one in op.control_inputs if one.name not in loading]
        if len(kept) < len(op.control_inputs):
            replace_control_inputs(op, kept)


def lasting_effects(ops: Sequence[tf.Operation], own: Collection[tf.Operation]) -> list[tf.Operation]:
    """Returns the operations whose effects another tower may see.

    Args:
      ops: the operations of one tower.
      own: the variables of this tower alone.
    """
    library = FunctionLibrary.of(ops)

    def is_own(op: tf.Operation) -> bool:
        return any(tensor.op in own for tensor in op.inputs) and not any(library.nodes_of(op.node_def))

    changing = (op for op in ops if not is_shared(op) and not op.type.startswith(_READS))
    return [op for op in changing if has_side_effect(op, library) and not is_own(op)]


def has_side_effect(op: tf.Operation, library: FunctionLibrary) -> bool:
    """Returns True if a later step may see an effect of the operation, or of a function that it calls."""
    nodes = [op.node_def, *library.nodes_of(op.node_def)]
    return any(_has_effect(node, op.graph) for node in nodes)


def _has_effect(node: v1.NodeDef, graph: tf.Graph) -> bool:
    if node.op.startswith(_HARMLESS) or node.op in _CALLS:
        return False
    if "seed" in node.attr and "seed2" in node.attr:
        return False
    return bool(graph.op_def_for_type(node.op).is_stateful)
