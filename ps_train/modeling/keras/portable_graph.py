"""A function that was traced eagerly, as nodes that another process imports into its own graph.

    portable = PortableGraph.of(function, variables)        # a ConcreteFunction
    results, effects, _ = portable.place(batch, given, "keras", ready)      # in the default graph

What the function has captured becomes either a constant or one of the variables.  A variable that is only read at the
top of the function may be given as a value: a tensor in the place of the variable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.private_tf import COLOCATION, GRADIENT_NAME, add_control_inputs

_READ, _GATHER, _SHAPE = "ReadVariableOp", "ResourceGather", "VariableShape"
_ASSIGNS = {"AssignVariableOp": "Identity", "AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
"""Type of an assignment to that of the operation which computes the assigned value."""

_WRITES = ("Assign", "ResourceScatter", "ResourceApply", "ResourceSparseApply", "ResourceStridedSlice")
"""Beginnings of the types of operations that change a variable."""


@dataclasses.dataclass(frozen=True)
class Gather:
    """Rows of a variable that the function reads.

    Attributes:
      rows: name of the tensor with the rows.
      ids: name of the tensor with their indices.
    """

    rows: str
    ids: str


@dataclasses.dataclass(frozen=True)
class Use:
    """How the function uses a variable.

    Attributes:
      node: name of the node that stands for its handle.
      shape, dtype: those of the variable.
      by_value: True if a value may take the variable's place; what it is assigned is then a value too.
      gathers: the rows that it reads, if it reads nothing else.
      assigned: True if the function changes it.
      adds: True if each change adds something to it that does not depend on it.
    """

    node: str
    shape: tuple[int, ...]
    dtype: str
    by_value: bool
    gathers: tuple[Gather, ...]
    assigned: bool
    adds: bool

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Use:
        """Returns the use that `dataclasses.asdict` described."""
        gathers = tuple(Gather(**one) for one in found["gathers"])
        return cls(**{**found, "shape": tuple(found["shape"]), "gathers": gathers})


@dataclasses.dataclass(frozen=True)
class LookupTable:
    """A lookup table: its keys and values, arrays [n]; texts are bytes."""

    keys: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]

    def placed(self) -> tf.Tensor:
        """Returns the handle of such a table of the default graph, which the graph's table initializer fills."""
        keys, values = tf.constant(self.keys.tolist(), _dtype_of(self.keys)), tf.constant(
            self.values.tolist(), _dtype_of(self.values)
        )  # fmt: skip
        name = v1.get_default_graph().unique_name("ps_train/lookup")
        table = tf.raw_ops.HashTableV2(key_dtype=keys.dtype, value_dtype=values.dtype, shared_name=name)
        filled = tf.raw_ops.InitializeTableV2(table_handle=table, keys=keys, values=values)
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, filled)
        return table


def _dtype_of(array: np.ndarray[Any, Any]) -> tf.DType:
    return tf.string if array.dtype.kind in "SO" else tf.as_dtype(array.dtype)


def _table(outer: Any, inner: tf.Tensor) -> LookupTable:
    """Returns the lookup table that a function has captured; raises ModelError for another resource."""
    finds = [op for op in inner.consumers() if op.type == "LookupTableFindV2"]
    others = sorted({op.type for op in inner.consumers()} - {"LookupTableFindV2", "LookupTableSizeV2"})
    if others or not finds:
        raise ModelError(
            f"the model uses a resource that cannot travel to other processes ({', '.join(others) or inner.op.name}): "
            "use variables of Keras, and lookup tables that do not change."
        )
    keys, values = tf.raw_ops.LookupTableExportV2(
        table_handle=outer, Tkeys=finds[0].get_attr("Tin"), Tvalues=finds[0].get_attr("Tout")
    )
    return LookupTable(keys.numpy(), values.numpy())


@dataclasses.dataclass(frozen=True)
class PortableGraph:
    """A traced function.

    Attributes:
      nodes: the GraphDef.
      inputs: names of the tensors for its arguments.
      outputs: names of its results, with expanded composites.
      effects: names of the operations that run whether a result is used or not.
      constants: name of a captured tensor to its value.
      uses: for each variable, in their order, how it is used; None for a variable that is not.
      tables: name of the node of each lookup table to its keys and values.
    """

    nodes: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    effects: tuple[str, ...]
    constants: Mapping[str, np.ndarray[Any, Any]]
    uses: tuple[Use | None, ...]
    tables: Mapping[str, LookupTable] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, function: Any, variables: Sequence[Any]) -> PortableGraph:
        """Returns a concrete function as a portable graph.

        Args:
          function: the function.
          variables: the TensorFlow variables that it may capture.

        Raises:
          ModelError: it has captured something else that has a state.
        """
        graph = function.graph
        known = {id(variable.handle): index for index, variable in enumerate(variables)}
        constants: dict[str, np.ndarray[Any, Any]] = {}
        uses: list[Use | None] = [None] * len(variables)
        tables: dict[str, LookupTable] = {}
        captured = set()
        for outer, inner in graph.captures:
            captured.add(inner.name)
            if id(outer) in known:
                index = known[id(outer)]
                uses[index] = _use(graph, inner, variables[index])
            elif outer.dtype in (tf.resource, tf.variant):
                tables[inner.op.name] = _table(outer, inner)
            else:
                constants[inner.name] = outer.numpy()
        inputs = tuple(tensor.name for tensor in function.inputs if tensor.name not in captured)
        flat = tf.nest.flatten(function.structured_outputs, expand_composites=True)
        outputs = tuple(tensor.name for tensor in flat if tensor is not None)
        effects = tuple(op.name for op in graph.control_outputs)
        return cls(_nodes_of(graph).SerializeToString(), inputs, outputs, effects, constants, tuple(uses), tables)

    def whole_readers(self, use: Use) -> list[str]:
        """Returns the operations that read a variable whole, of which others read rows; empty if none does both."""
        consumers: dict[str, list[v1.NodeDef]] = {}
        for node in v1.GraphDef.FromString(self.nodes).node:
            for one in node.input:
                consumers.setdefault(one.partition(":")[0], []).append(node)
        found, pending, has_gather = list[str](), [use.node], False
        while pending:
            for node in consumers.get(pending.pop(), ()):
                if node.op in (_READ, "Identity"):
                    pending.append(node.name)
                elif node.op in (_GATHER, "GatherV2"):
                    has_gather = True
                elif node.op not in (_SHAPE, "Shape"):
                    found.append(f"{node.op} ({node.name})")
        return found if has_gather else []

    def place(
        self, arguments: Sequence[tf.Tensor], given: Sequence[Any], name: str, ready: tf.Operation
    ) -> tuple[list[tf.Tensor], list[Any], list[Any]]:
        """Imports the function into the default graph.

        Args:
          arguments: its arguments.
          given: for each variable a variable, a value, or `Rows`; None for one that is not used.
          name: a name scope.
          ready: an operation that what reads or changes a variable waits for.

        Returns:
          The results, the operations of the effects, and for each variable that was given as a value and is assigned
          its last value; None for others.
        """
        nodes = v1.GraphDef.FromString(self.nodes)
        feeds: dict[str, Any] = dict(zip(self.inputs, arguments, strict=True))
        feeds |= {key: tf.constant(value) for key, value in self.constants.items()}
        feeds |= {f"{node}:0": table.placed() for node, table in self.tables.items()}
        values = {}
        for use, found in zip(self.uses, given, strict=True):
            if use is None:
                continue
            if isinstance(found, Rows):
                continue
            if isinstance(found, tf.Tensor):
                values[use.node] = use
                feeds[f"{use.node}:0"] = found
            else:
                feeds[f"{use.node}:0"] = found.handle
        last = _give_values(nodes, values)
        assigned = [f"{last[use.node]}:0" if use and use.node in last else "" for use in self.uses]
        wanted = [*self.outputs, *self.effects, *filter(None, assigned)]
        rows = [(use, found) for use, found in zip(self.uses, given, strict=True) if use and isinstance(found, Rows)]
        if rows:
            _leave_out(nodes, {use.node: use for use, _ in rows})
            feeds |= _fetched_rows(nodes, feeds, rows, name)
            nodes = _part(nodes, wanted)
            there = {node.name for node in nodes.node}
            feeds = {key: value for key, value in feeds.items() if key.partition(":")[0] in there}
        first = len(ready.graph.get_operations())
        # An import makes each node wait for each control input of the scope, thousands of edges in all.  With a control
        # input, TensorFlow's oneDNN pass ends the process at a convolution with a bias.
        with tf.control_dependencies(None):
            found = tf.graph_util.import_graph_def(nodes, feeds, wanted, name=name)
        for op in ready.graph.get_operations()[first:]:
            if any(tensor.dtype == tf.resource for tensor in op.inputs):
                add_control_inputs(op, [ready])
        results, effects = found[: len(self.outputs)], found[len(self.outputs) :][: len(self.effects)]
        values_of = iter(found[len(self.outputs) + len(self.effects) :])
        return results, effects, [next(values_of) if name else None for name in assigned]


@dataclasses.dataclass(frozen=True)
class Rows:
    """Stands for a variable of which rows are fetched.

    Attributes:
      fetch: function of indices, int [n]; returns their rows [n, ...].
      reads: number of gathers.
      fetched: filled by `place`: the indices and the rows of all gathers together.
    """

    fetch: Any
    reads: int
    fetched: list[tuple[tf.Tensor, tf.Tensor]] = dataclasses.field(default_factory=list)


def _fetched_rows(
    nodes: v1.GraphDef, feeds: Mapping[str, Any], rows: Sequence[tuple[Use, Rows]], name: str
) -> dict[str, tf.Tensor]:
    """Returns the rows of each gather, by the name of its tensor; computes the indices from the other feeds."""
    wanted = [gather.ids for use, _ in rows for gather in use.gathers]
    sub = _part(nodes, wanted)
    there = {node.name for node in sub.node}
    own = {key: value for key, value in feeds.items() if key.partition(":")[0] in there}
    ids = iter(tf.graph_util.import_graph_def(sub, own, wanted, name=f"{name}_ids"))
    found: dict[str, tf.Tensor] = {}
    for use, one in rows:
        parts = [next(ids) for _ in use.gathers]
        flat = (
            tf.concat([tf.reshape(part, [-1]) for part in parts], 0) if len(parts) > 1 else tf.reshape(parts[0], [-1])
        )
        fetched = one.fetch(flat)
        one.fetched.append((flat, fetched))
        pieces = tf.split(fetched, [tf.size(part) for part in parts]) if len(parts) > 1 else [fetched]
        for gather, part, piece in zip(use.gathers, parts, pieces, strict=True):
            shape = tf.concat([tf.shape(part), use.shape[1:]], 0)
            found[gather.rows] = tf.ensure_shape(tf.reshape(piece, shape), part.shape.concatenate(use.shape[1:]))
    return found


def _nodes_of(graph: Any) -> v1.GraphDef:
    """Returns the nodes of a function's graph without the devices and the gradient functions of this process.

    Gradients are among the nodes, so none of them is differentiated again.
    """
    nodes = graph.as_graph_def()
    for node in [*nodes.node, *(node for function in nodes.library.function for node in function.node_def)]:
        node.device = ""
        for name in (COLOCATION, GRADIENT_NAME):
            if name in node.attr:
                del node.attr[name]
    return nodes


def _part(nodes: v1.GraphDef, wanted: Sequence[str]) -> v1.GraphDef:
    """Returns the nodes that some tensors and operations need."""
    by_name = {node.name: node for node in nodes.node}
    pending, found = [_node_of(name) for name in wanted], set[str]()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += [_node_of(one) for one in by_name[name].input]
    part = v1.GraphDef(library=nodes.library, versions=nodes.versions)
    part.node.extend(node for node in nodes.node if node.name in found)
    return part


def _node_of(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]


def _give_values(nodes: v1.GraphDef, values: Mapping[str, Use]) -> dict[str, str]:
    """Makes the nodes read values in the place of variables, whose handles are these nodes.

    The nodes are in the order of the program, so an assignment is the value of what is read after it.

    Returns:
      The node of each variable that is assigned, to its last value.
    """
    axis = None
    present: dict[str, str] = {}
    for node in nodes.node:
        variable = node.input[0].partition(":")[0] if node.input else ""
        use = values.get(variable)
        if node.name in values:
            node.attr["dtype"].type = tf.as_dtype(values[node.name].dtype).as_datatype_enum
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(values[node.name].shape).as_proto())
        if use is None:
            continue
        if node.op == _READ:
            dtype = node.attr["dtype"].type
            node.op = "Identity"
            node.attr.clear()
            node.attr["T"].type = dtype
            node.input[0] = present.get(variable, node.input[0])
        elif node.op in _ASSIGNS:
            _become_value(node, present.get(variable, variable), use)
            present[variable] = node.name
        elif node.op == _GATHER:
            indices, dtype = node.attr["Tindices"].type, node.attr["dtype"].type
            node.op = "GatherV2"
            node.attr.clear()
            node.attr["Tindices"].type, node.attr["Tparams"].type = indices, dtype
            node.attr["Taxis"].type = tf.int32.as_datatype_enum
            axis = axis or _add_constant(nodes, np.int32(0))
            node.input.insert(2, axis)
        elif node.op == _SHAPE:
            _become_constant(node, np.array(use.shape, tf.as_dtype(node.attr["out_type"].type).as_numpy_dtype))
    return present


def _become_value(node: v1.NodeDef, before: str, use: Use) -> None:
    """Makes an assignment the value that it assigns."""
    kind, value, controls = _ASSIGNS[node.op], node.input[1], [one for one in node.input if one.startswith("^")]
    node.op = kind
    del node.input[:]
    node.input.extend([*([before] if kind != "Identity" else []), value, *controls])
    node.attr.clear()
    node.attr["T"].type = tf.as_dtype(use.dtype).as_datatype_enum


def _leave_out(nodes: v1.GraphDef, tables: Mapping[str, Use]) -> None:
    """Makes nodes read no variable of which rows are fetched, but its shape; they are in the order of their inputs.

    What read the variable is still there, since other nodes run after it.
    """
    whole = dict(tables)
    for node in nodes.node:
        use = whole.get(node.input[0].partition(":")[0]) if node.input else None
        if use is None:
            continue
        if node.op in (_READ, "Identity"):
            whole[node.name] = use
            if node.op == _READ:
                _become_constant(node, np.zeros((1, *use.shape[1:]), tf.as_dtype(use.dtype).as_numpy_dtype))
        elif node.op in (_SHAPE, "Shape"):
            _become_constant(node, np.array(use.shape, tf.as_dtype(node.attr["out_type"].type).as_numpy_dtype))


def _add_constant(nodes: v1.GraphDef, value: Any) -> str:
    node = nodes.node.add(name="ps_train_axis")
    _become_constant(node, value)
    return str(node.name)


def _become_constant(node: v1.NodeDef, value: Any) -> None:
    proto = tf.make_tensor_proto(value)
    controls = [one for one in node.input if one.startswith("^")]
    node.op = "Const"
    del node.input[:]
    node.attr.clear()
    node.attr["dtype"].type = proto.dtype
    node.attr["value"].tensor.CopyFrom(proto)
    node.input.extend(controls)


def _use(graph: Any, inner: tf.Tensor, variable: Any) -> Use:
    """Returns how a function uses a variable, whose handle is `inner` there."""
    readers = inner.consumers()
    plain = all(op.type in (_READ, _GATHER, _SHAPE, *_ASSIGNS) and op.inputs[0] is inner for op in readers)
    plain = plain and all(op.get_attr("batch_dims") == 0 for op in readers if op.type == _GATHER)
    gathers = _gathers(readers) if plain else []
    writes = [op for op in readers if op.type.startswith(_WRITES)]
    calls = [op for op in readers if op not in writes and op.type not in (_READ, _GATHER, _SHAPE)]
    assigned = bool(writes) or any(_changes(graph, op) for op in calls)
    return Use(
        node=inner.op.name,
        shape=tuple(variable.shape.as_list()),
        dtype=variable.dtype.base_dtype.name,
        by_value=plain,
        gathers=tuple(Gather(op.outputs[0].name, op.inputs[1].name) for op in gathers),
        assigned=assigned,
        adds=assigned and not any(_changes(graph, op) for op in calls) and all(_adds(op, inner) for op in writes),
    )


def _changes(graph: Any, op: tf.Operation) -> bool:
    """Returns True if an operation calls a function that changes a variable."""
    library = {one.signature.name: one for one in graph.as_graph_def().library.function}
    pending = [op.node_def]
    seen = set()
    while pending:
        node = pending.pop()
        if node.op.startswith(_WRITES):
            return True
        names = [value.func.name for value in node.attr.values() if value.HasField("func")]
        names += [one.name for value in node.attr.values() for one in value.list.func]
        names += [node.op] if node.op in library else []
        for name in names:
            if name not in seen and name in library:
                seen.add(name)
                pending += library[name].node_def
    return False


def _gathers(readers: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Returns the operations that read rows of a variable; empty if something reads it whole."""
    found, pending = list[tf.Operation](), list(readers)
    while pending:
        op = pending.pop()
        if op.type in (_READ, "Identity"):
            pending += op.outputs[0].consumers()
        elif op.type == _GATHER or (op.type == "GatherV2" and _takes_rows(op)):
            found.append(op)
        elif op.type not in (_SHAPE, "Shape"):
            return []
    return found


def _takes_rows(op: tf.Operation) -> bool:
    axis = tf.get_static_value(op.inputs[2])
    return axis is not None and int(axis) == 0 and not op.get_attr("batch_dims")


_SAME = ("Identity", "Cast", "EnsureShape", "Reshape")


def _adds(op: tf.Operation, handle: tf.Tensor) -> bool:
    """Returns True if a write adds something that does not depend on the variable itself."""
    if op.type == "AssignAddVariableOp" or op.type == "AssignSubVariableOp":
        return not _depends(op.inputs[1], handle)
    if op.type != "AssignVariableOp":
        return False
    value = _behind(op.inputs[1])
    if value.op.type not in ("AddV2", "Add"):
        return False
    for own, other in (value.op.inputs, reversed(value.op.inputs)):
        read = _behind(own).op
        if read.type == _READ and read.inputs[0] is handle and not _depends(other, handle):
            return True
    return False


def _behind(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type in _SAME:
        tensor = tensor.op.inputs[0]
    return tensor


def _depends(tensor: tf.Tensor, handle: tf.Tensor) -> bool:
    """Returns True if a tensor is computed from a variable."""
    pending, seen = [tensor], set[str]()
    while pending:
        one = pending.pop()
        if one is handle:
            return True
        if one.op.name not in seen:
            seen.add(one.op.name)
            pending += one.op.inputs
    return False
