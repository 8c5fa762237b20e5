"""Search for the variables that a model assigns itself in forward() or loss(): moving averages, counters.

assigned_variables({"mean": variable})             # ["mean"] if the scratch graph assigns it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.copied_functions import FunctionLibrary

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")
_PASS_THROUGH = ("Identity", "Switch", "RefSwitch", "Merge", "Enter", "Exit", "NextIteration")


def assigned_variables(variables: Mapping[str, Any]) -> list[str]:
    """Returns the names of the variables that an operation of the default graph assigns.

    Args:
      variables: name to variable, all of the default graph.
    """
    operations = v1.get_default_graph().get_operations()
    library = FunctionLibrary.of(operations) if operations else FunctionLibrary({})
    return [
        name for name, variable in variables.items() if _is_assigned(variable.handle, variable.initializer, library)
    ]


def _is_assigned(handle: tf.Tensor, initializer: tf.Operation, library: FunctionLibrary) -> bool:
    for op in handle.consumers():
        if op is initializer:
            continue
        if op.type in _PASS_THROUGH:
            if any(_is_assigned(output, initializer, library) for output in op.outputs):
                return True
            continue
        positions = [index for index, tensor in enumerate(op.inputs) if tensor is handle]
        if any(library.writes(op.node_def, index, _READS) for index in positions):
            return True
    return False
