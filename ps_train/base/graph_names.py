"""Names of a graph as TensorFlow 1 has them: the tensor `NAME:0` of a variable is its value.

    graph = NamedValuesGraph()
    graph.get_tensor_by_name("w:0"), session.run("w:0")         # the value of w, not the handle of its resource
    give_values_by_name()                                       # the same for all graphs

It does not know what makes the variables.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import RESOURCE_CODE, extensible

_really = tf.Graph.as_graph_element


def _element(graph: tf.Graph, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
    """Returns the tensor or operation of an object or name, as `tf.Graph.as_graph_element`; the value of a variable."""
    found = _really(graph, obj, allow_tensor, allow_operation)
    if not isinstance(obj, str) or not isinstance(found, tf.Tensor) or found.op.type != "VarHandleOp":
        return found
    return found if _is_asked_for_handle() else value_of(found)


def _is_asked_for_handle() -> bool:
    """Returns True if TensorFlow's code of resource variables has asked a graph for an element."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "as_graph_element":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == RESOURCE_CODE


class NamedValuesGraph(tf.Graph):
    """A `tf.Graph` in which the name of a variable is that of its value."""

    as_graph_element = _element


@functools.cache
def give_values_by_name() -> None:
    """Makes the names of variables those of their values in every graph of this process, finished ones too."""
    tf.Graph.as_graph_element = _element


def value_of(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the value of the variable whose handle is given, and any other tensor as it is.

    It is what TensorFlow itself reads when the variable is made.  A graph without such an operation gets one.
    """
    if tensor.op.type != "VarHandleOp":
        return tensor
    name = f"{tensor.op.name}/Read/ReadVariableOp"
    for reader in tensor.consumers():
        if reader.type == "ReadVariableOp" and reader.name == name:
            return reader.outputs[0]
    dtype = tf.as_dtype(tensor.op.get_attr("dtype"))
    with extensible(tensor.graph), v1.control_dependencies(None), v1.colocate_with(tensor.op), v1.name_scope(None):
        return tf.raw_ops.ReadVariableOp(resource=tensor, dtype=dtype, name=name)
