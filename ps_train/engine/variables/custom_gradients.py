"""Check of functions with a custom gradient: they must take the variables that they use as arguments.

    check_custom_gradients(graph, {"w": value})

`tf.custom_gradient` and `tf.recompute_grad` look for variables among the operations of their function.  They ask the
function for these variables' gradients.  A model is given values instead of trained variables, and TensorFlow does not
find variables in values.  Without this check, such variables would silently get no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import has_custom_gradient

_NOT_DIFFERENTIABLE = ("StopGradient", "PreventGradient")


def as_captured(given: Any) -> Any:
    """Returns a placeholder instead of a value, so TensorFlow finds no variable behind it, as in a step.

    Args:
      given: the object that the model is given for a variable; an object other than a tensor is returned as it is.
    """
    if not isinstance(given, tf.Tensor):
        return given
    with tf.init_scope(), v1.name_scope(None):
        return v1.placeholder(given.dtype, given.shape, "ps_train/value")


def check_custom_gradients(graph: tf.Graph, values: Mapping[str, tf.Tensor]) -> None:
    """Checks that no custom gradient loses the gradient of a trained variable.

    Args:
      graph: the graph of the model.
      values: name of each trained variable to the value that the model was given.

    Raises:
      ModelError: a variable would get no gradient.
    """
    names = {value.op: name for name, value in values.items()}
    for op in graph.get_operations():
        if has_custom_gradient(op):
            lost = sorted(names[used] for used in _captured(op) if used in names)
            if lost:
                raise ModelError(
                    f"a function with a gradient of its own (tf.custom_gradient, tf.recompute_grad) uses variable "
                    f"{', '.join(lost)}, which would get no gradient: give it to the function as an argument."
                )


def _captured(op: tf.Operation) -> set[tf.Operation]:
    """Returns all operations that the results depend on differentiably, other than through the arguments.

    TensorFlow joins results and arguments in one IdentityN, of which only the results are used.
    """
    pairs = list(zip(op.inputs, op.outputs, strict=True))
    results = [tensor for tensor, output in pairs if output.consumers()]
    arguments = {tensor.ref() for tensor, output in pairs if not output.consumers()}
    return _ancestors(results, arguments)


def _ancestors(tensors: Sequence[tf.Tensor], stops: set[object]) -> set[tf.Operation]:
    found: set[tf.Operation] = set()
    pending = [tensor for tensor in tensors if tensor.ref() not in stops]
    while pending:
        op = pending.pop().op
        if op not in found and op.type not in _NOT_DIFFERENTIABLE:
            found.add(op)
            pending += [tensor for tensor in op.inputs if tensor.ref() not in stops]
    return found
