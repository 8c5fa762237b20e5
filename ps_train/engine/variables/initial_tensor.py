"""Initial values that a model gives as tensors, copied so that another graph can compute them.

initial = extract_initial_value("w", tensor, known)
initial.tensor(seed, job_seed)          # in the default graph, on the current device
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import COLOCATION

_BATCH_OPS = ("Placeholder", "PlaceholderWithDefault", "IteratorGetNext")

Value = Callable[[int], tf.Tensor]
"""A function that returns an initial value for the job's seed."""


@dataclasses.dataclass(frozen=True)
class InitialTensor:
    """An initial value as a piece of graph.

    Attributes:
      nodes: the nodes that compute it.
      output: name of the tensor.
      others: name of each tensor that is another variable's value, to that variable's initial value.
    """

    nodes: v1.GraphDef
    output: str
    others: Mapping[str, Value]

    def tensor(self, seed: int, job_seed: int) -> tf.Tensor:
        """Computes the value in the default graph.

        Args:
          seed: seed of the random operations that have none.
          job_seed: the job's seed, for the initial values of other variables.
        """
        given = {name: value(job_seed) for name, value in self.others.items()}
        if self.output in given:
            return given[self.output]
        nodes = v1.GraphDef()
        nodes.CopyFrom(self.nodes)
        for number, node in enumerate(nodes.node):
            if "seed" in node.attr and "seed2" in node.attr and not (node.attr["seed"].i or node.attr["seed2"].i):
                node.attr["seed"].i, node.attr["seed2"].i = seed, number + 1
        (value,) = tf.import_graph_def(nodes, given, [self.output], "initial")
        return value


def extract_initial_value(name: str, tensor: tf.Tensor, known: Mapping[str, Value]) -> InitialTensor:
    """Collects the nodes that compute an initial value.

    Args:
      name: the variable's name, for the error.
      tensor: the initial value in the model's graph.
      known: name of each earlier variable's value tensor, or of its handle, to that variable's initial value.

    Raises:
      ModelError: the value depends on the batch, or on a variable that has no value yet.
    """
    ops: dict[str, tf.Operation] = {}
    others: dict[str, Value] = {}
    pending = [tensor]
    while pending:
        current = pending.pop()
        if (other := _variable_read(current)) in known:
            others[current.name] = known[other]
            continue
        if current.op.name in ops:
            continue
        _check(name, current)
        ops[current.op.name] = current.op
        pending += list(current.op.inputs)
    return InitialTensor(_graph_def(tensor.graph, ops), tensor.name, others)


def _variable_read(tensor: tf.Tensor) -> str:
    """Returns the tensor's name, or the name of the handle of the variable that it conditionally reads.

    ExponentialMovingAverage reads a variable if it is initialized, and the variable's initial value otherwise.
    """
    conditions = [tensor.op.inputs[0]] if tensor.op.type in ("If", "StatelessIf") else []
    if tensor.op.type == "Merge":
        conditions = [branch.op.inputs[1] for branch in tensor.op.inputs if branch.op.type == "Switch"]
    for condition in conditions:
        while condition.op.type == "Identity":
            condition = condition.op.inputs[0]
        if condition.op.type == "VarIsInitializedOp":
            return str(condition.op.inputs[0].name)
    return str(tensor.name)


def _check(name: str, tensor: tf.Tensor) -> None:
    op = tensor.op
    if op.type in _BATCH_OPS or tensor.dtype in (tf.resource, tf.variant):
        cause = "the batch" if op.type in _BATCH_OPS else f"{op.name} ({op.type}), which has no value yet"
        raise ModelError(f"the initial value of variable {name} depends on {cause}: use constants and random numbers.")


def _graph_def(graph: tf.Graph, ops: Mapping[str, tf.Operation]) -> v1.GraphDef:
    nodes = v1.GraphDef(versions=graph.graph_def_versions)
    for op in ops.values():
        node = op.node_def
        data_inputs = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(data_inputs)
        node.attr.pop(COLOCATION, None)
        node.device = ""
        nodes.node.append(node)
    if any(value.HasField("func") for node in nodes.node for value in node.attr.values()):
        nodes.library.CopyFrom(graph.as_graph_def().library)
    return nodes
