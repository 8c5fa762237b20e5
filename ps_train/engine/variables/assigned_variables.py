"""Search for the variables that a model assigns itself in forward() or loss(): moving averages, counters.

assigned_variables({"mean": variable})             # ["mean"] if the scratch graph assigns it
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.copied_functions import FunctionLibrary

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")
_PASS_THROUGH = ("Identity", "Switch", "RefSwitch", "Merge", "Enter", "Exit", "NextIteration")


def assigned_variables(variables: Mapping[str, Any], apart: Collection[tf.Operation] = ()) -> list[str]:
    """Returns the names of the variables that an operation of the default graph assigns.

    Args:
      variables: name to variable, all of the default graph.
      apart: operations that do not count.
    """
    operations = v1.get_default_graph().get_operations()
    library = FunctionLibrary.of(operations) if operations else FunctionLibrary({})
    found = {name: writers(one.handle, library, one.initializer) for name, one in variables.items()}
    return [name for name, ops in found.items() if any(op not in apart for op in ops)]


def writers(handle: tf.Tensor, library: FunctionLibrary, initializer: tf.Operation | None = None) -> list[tf.Operation]:
    """Returns the operations that may write to a variable, in branches, loops and functions too.

    Args:
      handle: of the variable.
      library: the functions of its graph.
      initializer: an operation to leave out.
    """
    found: list[tf.Operation] = []
    pending, seen = [handle], {handle.name}
    while pending:
        current = pending.pop()
        for op in current.consumers():
            if op.type in _PASS_THROUGH:
                pending += [output for output in op.outputs if output.name not in seen]
                seen.update(output.name for output in op.outputs)
            elif op is not initializer:
                positions = [index for index, tensor in enumerate(op.inputs) if tensor is current]
                if any(library.writes(op.node_def, index, _READS) for index in positions):
                    found.append(op)
    return found
