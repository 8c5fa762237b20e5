"""Search for operations with side effects, which must run in the order of the steps.

A side effect is one that a later step may see.  TensorFlow declares which operations are stateful.  Some of them have
no such effect: random operations, checks, and the arrays and stacks of loops.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.copied_functions import FunctionLibrary

_CALLS = ("If", "While", "Case", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "For")
"""Operations that call functions; they have a side effect only if a called function has one."""

_HARMLESS = ("Assert", "Placeholder", "TensorArray", "Stack", "VarHandleOp", "IteratorV2", "_")
"""Prefixes of the types of stateful operations whose order does not matter."""


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
