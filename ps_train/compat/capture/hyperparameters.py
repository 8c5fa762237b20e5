"""An optimizer's hyperparameters, made again on each ps from that ps's own step.

    own = on_this_ps(optimizer, step_of_the_model)       # in the device scope of the ps, with its global step

A learning rate may be a tensor of the global step.  The operations between the two are copied.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import COLOCATION, share_slots
from ps_train.compat.capture.counted_step import ancestors
from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.compat.capture.recorded_optimizers import AppliedGradients

_SOURCES = ("VarHandleOp", "VariableV2", "Placeholder", "PlaceholderWithDefault", "IteratorGetNext", "Iterator")


def check_hyperparameters(applied: Sequence[AppliedGradients], step: Any) -> None:
    """Checks that hyperparameters depend on constants and the global step alone.

    Args:
      applied: the optimizers.
      step: the variable of the global step.

    Raises:
      CaptureError: one depends on something else.
    """
    for call in applied:
        for name, value in call.hyperparameters.items():
            if isinstance(value, tf.Tensor | tf.Variable):
                for op in ancestors(tf.convert_to_tensor(value).op):
                    if op.type in _SOURCES and op is not step.handle.op:
                        raise CaptureError(
                            f"{name.lstrip('_')} of {type(call.optimizer).__name__} depends on {op.name} ({op.type}), "
                            "not on the global step alone"
                        )


def on_this_ps(optimizer: Any, step: tf.Tensor | None) -> Any:
    """Returns an unused copy of an optimizer, in the current graph, whose hyperparameters depend on its global step.

    Args:
      optimizer: the optimizer of the model.
      step: the tensor that was the global step where the optimizer was made; None if it was not used.
    """
    own = copy.copy(optimizer)
    share_slots(own, own)
    for name, value in vars(optimizer).items():
        if callable(value) and not isinstance(value, tf.Tensor | tf.Variable | type) and _is_function(value):
            setattr(own, name, value())
        elif isinstance(value, tf.Tensor):
            setattr(own, name, _again(value, step))
    return own


def _is_function(value: Any) -> bool:
    code = getattr(value, "__code__", None)
    return code is not None and code.co_argcount == 0


def _again(tensor: tf.Tensor, step: tf.Tensor | None) -> tf.Tensor:
    """Returns a copy of a tensor that depends on the current global step in the place of `step`."""
    # Within a condition the step is a tensor of the graph around it, which an import does not find.
    own = None if step is None else tf.identity(tf.cast(tf.convert_to_tensor(v1.train.get_global_step()), step.dtype))
    if tensor is step:
        return own
    stop = {step.op} if step is not None else set()
    needed = ancestors(tensor.op, stop=stop)
    nodes = v1.GraphDef(versions=tensor.graph.graph_def_versions)
    inputs: dict[str, tf.Tensor] = {}
    for op in needed:
        if op in stop:
            continue
        node = op.node_def
        node.attr.pop(COLOCATION, None)
        inputs_only = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(inputs_only)
        node.device = ""
        nodes.node.append(node)
    if any(a.HasField("func") or a.list.func for node in nodes.node for a in node.attr.values()):
        nodes.library.CopyFrom(tensor.graph.as_graph_def().library)
    if step is not None and any(source is step for op in needed for source in op.inputs):
        inputs[step.name] = own
    (found,) = tf.import_graph_def(nodes, inputs, [tensor.name], name="hyperparameter")
    return found
