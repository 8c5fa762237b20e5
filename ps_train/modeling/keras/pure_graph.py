"""A traced function's effects on variables as results: a graph without variables.

    pure = without_variables(function, {"weight": weight}, "the optimizer")
    pure.results["weight"]                    # the name of the tensor with the weight's new value
    pure.inputs_of(pure.results["weight"])    # {"weight", "gradient"}: what the new value is computed from
    graph = pure.slice([pure.results["weight"]])

The function's operations are followed in their order.  A read of a variable is its present value, and an assignment
makes a new present value.  Both branches of a condition are computed, and the condition selects the results, so a new
value depends only on what it is computed from.

The module knows neither Keras nor optimizers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import function_graph


class _Handle(NamedTuple):
    """The variable that a tensor of a traced graph refers to."""

    key: str
    dtype: Any


@dataclasses.dataclass(frozen=True)
class PureGraph:
    """Operations without variables.

    Attributes:
      nodes: name to operation, in an order in which they can be computed.
      results: key of a variable to the name of the tensor with its last value, for each variable that was assigned.
      outputs: names of the tensors with the function's own results.
      functions: name to the functions that operations call.
    """

    nodes: Mapping[str, Any]
    results: Mapping[str, str]
    outputs: Sequence[str]
    functions: Mapping[str, Any]

    def inputs_of(self, *tensors: str) -> set[str]:
        """Returns the keys of the variables, and the names of the arguments, that tensors are computed from."""
        return {name for name in self._needed(tensors) if self.nodes[name].op == "Placeholder"}

    def slice(self, tensors: Iterable[str]) -> Any:
        """Returns the GraphDef of the operations that tensors need; its placeholders are `inputs_of(*tensors)`."""
        needed = self._needed(tensors)
        graph = v1.GraphDef(node=[node for name, node in self.nodes.items() if name in needed])
        graph.versions.producer = tf.version.GRAPH_DEF_VERSION
        graph.library.function.extend(_called(graph.node, self.functions))
        return graph

    def _needed(self, tensors: Iterable[str]) -> set[str]:
        found: set[str] = set()
        waiting = [_node_of(tensor) for tensor in tensors]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [_node_of(one) for one in self.nodes[name].input]
        return found


def without_variables(function: Any, variables: Mapping[str, Any], owner: str) -> PureGraph:
    """Returns the operations of a traced function as a graph without variables.

    Args:
      function: a concrete function; the names of its arguments become the names of inputs.
      variables: key to each variable that the function may have captured; the keys become names of inputs.
      owner: the code that was traced, for errors.

    Raises:
      ModelError: the function does something to a variable that has no counterpart among values.
    """
    graph = function.graph
    walk = _Walk(owner, {one.signature.name: one for one in graph.as_graph_def().library.function})
    known: dict[str, Any] = {}
    captured = {inner.name for _, inner in graph.captures}
    for tensor in function.inputs:
        if tensor.name not in captured:
            known[tensor.name] = walk.input(tensor.op.name, tensor.dtype)
    handles = {id(one.handle): _Handle(key, one.dtype.base_dtype) for key, one in variables.items()}
    for outer, inner in graph.captures:
        if outer.dtype != tf.resource:
            known[inner.name] = walk.constant(outer.numpy(), outer.dtype)
        elif id(outer) in handles:
            known[inner.name] = handles[id(outer)]
    walk.follow(graph, known, "")
    outputs = [known[tensor.name] for tensor in graph.outputs if isinstance(known.get(tensor.name), str)]
    return PureGraph(walk.nodes, walk.present, outputs, walk.functions)


class _Walk:
    """Follows operations in their order, and keeps the present value of each variable.

    Args:
      owner: the code that was traced, for errors.
      functions: name to the functions that its operations call.

    Attributes:
      nodes: name to operation, as far as the walk has come.
      present: key of a variable to the tensor with its present value, if it was assigned.
    """

    def __init__(self, owner: str, functions: Mapping[str, Any]) -> None:
        self.owner, self.functions = owner, functions
        self.nodes: dict[str, Any] = {}
        self.present: dict[str, str] = {}
        self._dtypes: dict[str, Any] = {}
        self._graphs: dict[str, Any] = {}

    def input(self, name: str, dtype: Any) -> str:
        """Returns the tensor of an input, which it makes at the first call."""
        if name not in self.nodes:
            node = v1.NodeDef(name=name, op="Placeholder")
            node.attr["dtype"].type = dtype.as_datatype_enum
            node.attr["shape"].shape.unknown_rank = True
            self.nodes[name] = node
        self._dtypes[f"{name}:0"] = dtype
        return f"{name}:0"

    def constant(self, value: Any, dtype: Any) -> str:
        """Returns the tensor of a new constant."""
        node = v1.NodeDef()
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
        return self._add("constant", "Const", [], [dtype], node.attr)[0]

    def follow(self, graph: Any, known: dict[str, Any], scope: str) -> None:
        """Follows a graph's operations.

        Args:
          graph: the graph.
          known: the name of a tensor of the graph to the tensor here, or to a `_Handle`; its inputs first, and all
            others afterwards.
          scope: beginning of the names of the operations here.
        """
        for op in graph.get_operations():
            if op.type not in ("Placeholder", "NoOp"):
                inputs = [self._known(tensor, known) for tensor in op.inputs]
                results = self._results(op, inputs, f"{scope}{op.name}")
                known.update({tensor.name: one for tensor, one in zip(op.outputs, results, strict=True)})

    def _known(self, tensor: Any, known: Mapping[str, Any]) -> Any:
        if tensor.name not in known:
            raise ModelError(f"{self.owner} uses {tensor.name}, which is neither a variable nor a value.")
        return known[tensor.name]

    def _results(self, op: Any, inputs: list[Any], name: str) -> Sequence[Any]:
        """Returns the results of an operation, given its inputs."""
        if op.type in ("Identity", "IdentityN"):
            return inputs
        if op.type in ("If", "StatelessIf"):
            return self._branches(op, inputs, name)
        called = op.get_attr("f").name if op.type in ("PartitionedCall", "StatefulPartitionedCall") else op.type
        if called in self.functions:
            return self._call(called, inputs, f"{name}/")
        if any(isinstance(one, _Handle) for one in inputs):
            return self._on_variable(op, inputs, name)
        return self._add(name, op.type, inputs, [tensor.dtype for tensor in op.outputs], op.node_def.attr)

    def _on_variable(self, op: Any, inputs: list[Any], name: str) -> Sequence[Any]:
        handle = inputs[0]
        if op.type == "ReadVariableOp":
            return [self._value(handle)]
        if op.type == "VariableShape":
            return self._add(
                name, "Shape", [self._value(handle)], [op.outputs[0].dtype], op.node_def.attr, handle.dtype
            )
        if op.type == "AssignVariableOp":
            self.present[handle.key] = inputs[1]
        elif op.type in ("AssignAddVariableOp", "AssignSubVariableOp"):
            kind = "AddV2" if op.type == "AssignAddVariableOp" else "Sub"
            pair = [self._value(handle), inputs[1]]
            self.present[handle.key] = self._add(name, kind, pair, [handle.dtype], {}, handle.dtype)[0]
        else:
            raise ModelError(
                f"{self.owner} uses the operation {op.type} on a variable: only reads and assignments of whole "
                "variables (assign, assign_add, assign_sub) can be carried to a ps."
            )
        return []

    def _value(self, handle: _Handle) -> str:
        return self.present.get(handle.key) or self.input(handle.key, handle.dtype)

    def _call(self, function: str, inputs: list[Any], scope: str) -> list[Any]:
        if function not in self._graphs:
            self._graphs[function] = function_graph(self.functions[function])
        graph = self._graphs[function]
        known = {tensor.name: one for tensor, one in zip(graph.inputs, inputs, strict=True)}
        self.follow(graph, known, scope)
        return [self._known(tensor, known) for tensor in graph.outputs]

    def _branches(self, op: Any, inputs: list[Any], name: str) -> list[Any]:
        """Follows both branches of a condition, and returns the selected results."""
        condition, given = inputs[0], inputs[1:]
        handles = {one.key: one for one in given if isinstance(one, _Handle)}
        before, ends = self.present, []
        for branch in ("then_branch", "else_branch"):
            self.present = dict(before)
            ends.append((self._call(op.get_attr(branch).name, given, f"{name}/{branch}/"), self.present))
        (then, then_present), (other, other_present) = ends
        self.present = dict(before)
        for key, handle in handles.items():
            if key in then_present or key in other_present:
                # A branch that does not assign the variable leaves its value, which may be the input.
                pair = [present.get(key) or self._value(handle) for present in (then_present, other_present)]
                self.present[key] = self._select(condition, pair, name)
        return [self._select(condition, pair, name) for pair in zip(then, other, strict=True)]

    def _select(self, condition: str, pair: Sequence[Any], name: str) -> Any:
        """Returns the first of a pair where the condition is true, else the second."""
        then, other = pair
        if then == other:
            return then
        if isinstance(then, _Handle) or isinstance(other, _Handle):
            raise ModelError(f"{self.owner} selects one of several variables in a condition: select their values.")
        dtype = self._dtypes[then]
        return self._add(name, "SelectV2", [condition, then, other], [dtype], {}, dtype)[0]

    def _add(
        self, name: str, kind: str, inputs: Sequence[str], dtypes: Sequence[Any], attributes: Any, of: Any = None
    ) -> list[str]:
        """Adds an operation and returns the names of its results.

        Args:
          name: its name, to which a number is added if the name is taken.
          kind: its type.
          inputs: its inputs.
          dtypes: those of its results.
          attributes: its attributes.
          of: the value of its attribute T, if the attributes lack it.
        """
        unique, number = name, 0
        while unique in self.nodes:
            number += 1
            unique = f"{name}_{number}"
        node = self.nodes[unique] = v1.NodeDef(name=unique, op=kind, input=inputs)
        for key, value in attributes.items():
            if not key.startswith("_") and (of is None or key == "out_type"):  # else notes of TensorFlow for itself
                node.attr[key].CopyFrom(value)
        if of is not None:
            node.attr["T"].type = of.as_datatype_enum
        results = [f"{unique}:{index}" for index in range(len(dtypes))]
        self._dtypes.update(zip(results, dtypes, strict=True))
        return results


def _node_of(tensor: str) -> str:
    return tensor.rpartition(":")[0] or tensor


def _called(nodes: Iterable[Any], functions: Mapping[str, Any]) -> list[Any]:
    """Returns the functions that operations call, and those that these functions call."""
    found: dict[str, Any] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        names = [node.op]
        for value in node.attr.values():
            names += [one.name for one in (value.func, *value.list.func)]
        for name in names:
            if name in functions and name not in found:
                found[name] = functions[name]
                waiting += functions[name].node_def
    return [found[name] for name in sorted(found)]
