"""Finds operations whose effects a later step may see: they must keep the order of the steps.

TensorFlow declares which operations are stateful.  Of these, some have nothing that outlives a step, or nothing that
depends on the order: random operations, checks, and the arrays and stacks of loops.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.copied_functions import FunctionLibrary

_CALLS = ("If", "While", "Case", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "For")
"""Stateful if what they call is."""

_HARMLESS = ("Assert", "Placeholder", "TensorArray", "Stack", "VarHandleOp", "IteratorV2", "_")
"""Beginnings of the types of stateful operations whose order does not matter."""


def has_side_effect(op: tf.Operation, library: FunctionLibrary) -> bool:
    """Whether what it does, itself or through a function, may be seen by a later step."""
    nodes = [op.node_def, *library.nodes_of(op.node_def)]
    return any(_has_effect(node, op.graph) for node in nodes)


def _has_effect(node: v1.NodeDef, graph: tf.Graph) -> bool:
    if node.op.startswith(_HARMLESS) or node.op in _CALLS:
        return False
    if "seed" in node.attr and "seed2" in node.attr:
        return False
    return bool(graph.op_def_for_type(node.op).is_stateful)
