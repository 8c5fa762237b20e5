"""The graph of one variable's rule, in a form that is the same for all variables with the same rule.

    names = {"variable_0": "variable"}
    graph, inputs, outputs = rule_graph(pure, {"variable": "sub:0"}, names, shape=(3, 2), dtype=tf.float32)

Names are replaced, so that equal rules are equal bytes.  The shape of the variable is replaced by the shape of the
value that the rule is given, so that the rule serves a slice and some rows too.  `rule_checks.py` finds out whether it
then computes the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.modeling.keras.pure_graph import PureGraph


def rule_graph(
    pure: PureGraph, results: Mapping[str, str], as_named: Mapping[str, str], shape: tuple[int, ...], dtype: tf.DType
) -> tuple[bytes, frozenset[str], dict[str, str]]:
    """Returns the graph of some results.

    Args:
      pure: the graph that has them.
      results: name of a result to its tensor.
      as_named: name of an input in `pure` to its name in the new graph; others keep theirs.
      shape: shape of the variable.
      dtype: dtype of the variable.

    Returns:
      The serialized GraphDef, the names of its inputs, and the results with the names of their tensors in it.
    """
    graph = pure.slice(results.values())
    inputs = {as_named.get(one, one) for one in pure.inputs_of(*results.values())}
    renamed: dict[str, str] = {}
    for node in graph.node:
        renamed[node.name] = as_named.get(node.name, node.name) if node.op == "Placeholder" else f"n{len(renamed)}"
    for node in graph.node:
        node.name = renamed[node.name]
        sources = [_renamed(one, renamed) for one in node.input]
        del node.input[:]
        node.input.extend(sources)
    follows = sum(_follow_shape(graph, node, shape, dtype) for node in list(graph.node))
    if follows and "variable" not in inputs:
        node = graph.node.add(name="variable", op="Placeholder")
        node.attr["dtype"].type = dtype.as_datatype_enum
        inputs.add("variable")
    outputs = {name: _renamed(tensor, renamed) for name, tensor in results.items()}
    return graph.SerializeToString(deterministic=True), frozenset(inputs), outputs


def _renamed(tensor: str, names: Mapping[str, str]) -> str:
    node, _, index = tensor.rpartition(":")
    return f"{names[node]}:{index}"


def _follow_shape(graph: Any, node: Any, shape: tuple[int, ...], of: tf.DType) -> bool:
    """Replaces a constant that is the variable's shape, or that has it; returns True if it did."""
    if node.op != "Const" or not shape or len(node.attr["value"].tensor.tensor_shape.dim) == 0:
        return False
    dtype = tf.as_dtype(node.attr["dtype"].type)
    value = tf.make_ndarray(node.attr["value"].tensor)
    if dtype in (tf.int32, tf.int64) and value.tolist() == list(shape):
        _become(node, "Shape", ["variable:0"], T=of, out_type=dtype)
        return True
    if value.shape == shape and value.size > 1 and dtype != tf.string and (value == value.flat[0]).all():
        size, filler = graph.node.add(name=f"{node.name}_shape"), graph.node.add(name=f"{node.name}_value", op="Const")
        _become(size, "Shape", ["variable:0"], T=of, out_type=tf.int32)
        filler.attr["dtype"].type = dtype.as_datatype_enum
        filler.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.asarray(value.flat[0]), dtype))
        _become(node, "Fill", [f"{size.name}:0", f"{filler.name}:0"], T=dtype, index_type=tf.int32)
        return True
    return False


def _become(node: Any, kind: str, inputs: Sequence[str], **dtypes: tf.DType) -> None:
    """Makes a node another operation."""
    node.op = kind
    del node.input[:]
    node.input.extend(inputs)
    node.attr.clear()
    for name, dtype in dtypes.items():
        node.attr[name].type = dtype.as_datatype_enum
