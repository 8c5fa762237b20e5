"""An initial value that a model gives as a tensor: the nodes that compute it, to be computed in another graph.

initial = extracted("w", tensor, known)
initial.tensor(seed)                    # in the present graph, on the present device
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.errors import ModelError

_OF_THE_BATCH = ("Placeholder", "PlaceholderWithDefault", "IteratorGetNext")

Value = Callable[[int], tf.Tensor]
"""From the seed of the job to an initial value."""


@dataclasses.dataclass(frozen=True)
class InitialTensor:
    """Attributes:
    nodes: all that it is computed from.
    output: name of the tensor.
    others: name of each tensor that is the value of another variable, to the initial value of that.
    """

    nodes: v1.GraphDef
    output: str
    others: Mapping[str, Value]

    def tensor(self, seed: int, job_seed: int) -> tf.Tensor:
        """Random numbers without a seed of their own depend on `seed`; other variables' values on `job_seed`."""
        given = {name: value(job_seed) for name, value in self.others.items()}
        if self.output in given:
            return given[self.output]
        nodes = v1.GraphDef()
        nodes.CopyFrom(self.nodes)
        for number, node in enumerate(nodes.node):
            if "seed" in node.attr and "seed2" in node.attr and not (node.attr["seed"].i or node.attr["seed2"].i):
                node.attr["seed"].i, node.attr["seed2"].i = seed, number + 1
        (found,) = tf.import_graph_def(nodes, given, [self.output], "initial")
        return found


def extracted(name: str, tensor: tf.Tensor, known: Mapping[str, Value]) -> InitialTensor:
    """Raises ModelError where the value cannot be known before the first batch.

    Args:
      name: of the variable, for the error.
      known: name of each tensor that is the value of a variable, or its handle, to the initial value of that.
    """
    found: dict[str, tf.Operation] = {}
    others: dict[str, Value] = {}
    left = [tensor]
    while left:
        one = left.pop()
        if (other := _variable_read(one)) in known:
            others[one.name] = known[other]
            continue
        if one.op.name in found:
            continue
        _check(name, one)
        found[one.op.name] = one.op
        left += list(one.op.inputs)
    return InitialTensor(_definition(tensor.graph, found), tensor.name, others)


def _variable_read(tensor: tf.Tensor) -> str:
    """The tensor itself, or the handle of a variable that is read if it has a value, as ExponentialMovingAverage does;
    its initial value is what stands there otherwise."""
    asked = [tensor.op.inputs[0]] if tensor.op.type in ("If", "StatelessIf") else []
    if tensor.op.type == "Merge":
        asked = [one.op.inputs[1] for one in tensor.op.inputs if one.op.type == "Switch"]
    for condition in asked:
        while condition.op.type == "Identity":
            condition = condition.op.inputs[0]
        if condition.op.type == "VarIsInitializedOp":
            return str(condition.op.inputs[0].name)
    return str(tensor.name)


def _check(name: str, tensor: tf.Tensor) -> None:
    op = tensor.op
    if op.type in _OF_THE_BATCH or tensor.dtype in (tf.resource, tf.variant):
        what = "the batch" if op.type in _OF_THE_BATCH else f"{op.name} ({op.type}), which has no value yet"
        raise ModelError(f"the initial value of variable {name} depends on {what}: use constants and random numbers.")


def _definition(graph: tf.Graph, ops: Mapping[str, tf.Operation]) -> v1.GraphDef:
    nodes = v1.GraphDef(versions=graph.graph_def_versions)
    for op in ops.values():
        node = op.node_def
        kept = [taken for taken in node.input if not taken.startswith("^")]
        del node.input[:]
        node.input.extend(kept)
        node.attr.pop("_class", None)
        node.device = ""
        nodes.node.append(node)
    if any(value.HasField("func") for node in nodes.node for value in node.attr.values()):
        nodes.library.CopyFrom(graph.as_graph_def().library)
    return nodes
