"""Finds variables that a function with a custom gradient uses without being given them.

    check_custom_gradients(graph, {"w": value})

`tf.custom_gradient` and `tf.recompute_grad` look for variables in what their function has built, and ask it for their
gradients too.  A model is given values in place of trained variables, in which TensorFlow sees no variables: without
this check they would silently get no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.errors import ModelError

_CUSTOM, _ATTRIBUTE = b"CustomGradient-", "_gradient_op_type"
_STOPS = ("StopGradient", "PreventGradient")


def as_captured(handed: Any) -> Any:
    """Returns for a value one behind which TensorFlow finds no variable in the graph, as in a step."""
    if not isinstance(handed, tf.Tensor):
        return handed
    with tf.init_scope(), v1.name_scope(None):
        return v1.placeholder(handed.dtype, handed.shape, "ps_train/value")


def check_custom_gradients(graph: tf.Graph, values: Mapping[str, tf.Tensor]) -> None:
    """Raises ModelError for a trained variable whose gradient would be lost.

    Args:
      values: name of each trained variable to its value, as the model was given it.
    """
    names = {value.op: name for name, value in values.items()}
    for op in graph.get_operations():
        if op.type == "IdentityN" and op.node_def.attr[_ATTRIBUTE].s.startswith(_CUSTOM):
            lost = sorted(names[used] for used in _captured(op) if used in names)
            if lost:
                raise ModelError(
                    f"a function with a gradient of its own (tf.custom_gradient, tf.recompute_grad) uses variable "
                    f"{', '.join(lost)}, which would get no gradient: give it to the function as an argument."
                )


def _captured(op: tf.Operation) -> set[tf.Operation]:
    """Everything that the results are differentiably computed from without passing the arguments.

    TensorFlow joins results and arguments in one IdentityN, of which only the results are used."""
    results = [taken for taken, given in zip(op.inputs, op.outputs, strict=True) if given.consumers()]
    arguments = {taken.ref() for taken, given in zip(op.inputs, op.outputs, strict=True) if not given.consumers()}
    return _walked(results, arguments)


def _walked(begin: Sequence[tf.Tensor], stops: set[object]) -> set[tf.Operation]:
    found: set[tf.Operation] = set()
    left = [tensor for tensor in begin if tensor.ref() not in stops]
    while left:
        op = left.pop().op
        if op not in found and op.type not in _STOPS:
            found.add(op)
            left += [tensor for tensor in op.inputs if tensor.ref() not in stops]
    return found
