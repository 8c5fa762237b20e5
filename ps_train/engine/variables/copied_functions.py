"""Copies of the functions that a step calls (branches, loop bodies, `tf.function`s), with different random numbers.

    library = FunctionLibrary.of(ops)
    graph_def.library.CopyFrom(library.copy_for(graph_def.node, number=3))      # renames the functions in the nodes

The seed of a random operation in a function depends on its place in the function.  Two calls of one function would
therefore draw the same numbers.  A function that draws random numbers, itself or through others, is copied for each
copy of the step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import FUNCTION_PREFIXES

_FIRST_ARGUMENT = {
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), 1),
    **dict.fromkeys(("While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall"), 0),
}
"""Type of each operation that calls functions, to the index of the input that is the functions' first argument."""


class FunctionLibrary:
    """The functions of a graph.

    Args:
      functions: name to FunctionDef.

    Attributes:
      drawing: takes a function's name and returns True if that function draws random numbers from a seed.
    """

    def __init__(self, functions: dict[str, Any]) -> None:
        self._functions = functions
        self.drawing = functools.cache(self._drawing)

    @classmethod
    def of(cls, ops: Sequence[tf.Operation]) -> FunctionLibrary:
        """Returns the library of the operations' graph; it is empty if no operation calls a function."""
        if not any(_names_in(op.node_def.attr.values()) for op in ops) and not any(_is_call(op) for op in ops):
            return cls({})
        library = ops[0].graph.as_graph_def().library
        return cls({function.signature.name: function for function in library.function})

    def nodes_of(self, node: v1.NodeDef) -> Iterator[v1.NodeDef]:
        """Yields the nodes of all functions that a node may call, also through other functions."""
        seen: set[str] = set()
        pending = self._called_by(node)
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                for inner in self._functions[name].node_def:
                    yield inner
                    pending += self._called_by(inner)

    def needed_by(self, nodes: Iterable[v1.NodeDef]) -> Any:
        """Returns the functions that nodes may call, also through other functions, as another graph needs them."""
        everything = [one for node in nodes for one in (node, *self.nodes_of(node))]
        names = {name for node in everything for name in self._called_by(node)}
        library = v1.GraphDef().library
        library.function.extend([self._functions[name] for name in sorted(names)])
        return library

    def writes(self, node: v1.NodeDef, index: int, reads: Sequence[str]) -> bool:
        """Returns True if a node may write to one of its resources, itself or through a function.

        Args:
          node: of the graph, or of one of its functions.
          index: index of the input that is the resource.
          reads: types of the operations that only read a resource.
        """
        if node.op not in _FIRST_ARGUMENT:
            return node.op not in reads
        position = index - _FIRST_ARGUMENT[node.op]
        for name in self._called_by(node):
            function = self._functions[name]
            argument = function.signature.input_arg[position].name
            for inner in function.node_def:
                uses = [number for number, text in enumerate(inner.input) if text.partition(":")[0] == argument]
                if any(self.writes(inner, number, (*reads, "Identity")) for number in uses):
                    return True
        return False

    def copy_for(self, nodes: Iterable[v1.NodeDef], number: int) -> Any:
        """Makes nodes call copies of the functions that draw random numbers, and returns these copies.

        Args:
          nodes: the nodes of one copy of the step; the names of the functions that they call are changed in place.
          number: number of that copy.
        """
        library = v1.GraphDef().library
        pending, copied = [name for node in nodes for name in self._renamed_in(node, number)], set[str]()
        while pending:
            name = pending.pop()
            if name in copied:
                continue
            copied.add(name)
            function = library.function.add()
            function.CopyFrom(self._functions[name])
            function.signature.name = _copy_name(name, number)
            for node in function.node_def:
                make_seed_distinct(node, number)
                pending += self._renamed_in(node, number)
        return library

    def _renamed_in(self, node: v1.NodeDef, number: int) -> list[str]:
        """Renames the functions that a node calls and that draw random numbers; returns their old names."""
        renamed = []
        for reference in _references_in(node.attr.values()):
            if self.drawing(reference.name):
                renamed.append(reference.name)
                reference.name = _copy_name(reference.name, number)
        if self.drawing(node.op):
            renamed.append(node.op)
            node.op = _copy_name(node.op, number)
        return renamed

    def _drawing(self, name: str) -> bool:
        if name not in self._functions:
            return False
        call = v1.NodeDef(op=name)
        return any(has_seed(node) for node in self.nodes_of(call))

    def _called_by(self, node: v1.NodeDef) -> list[str]:
        names = [*_names_in(node.attr.values()), node.op]
        return [name for name in names if name in self._functions]


def has_seed(node: v1.NodeDef) -> bool:
    """Returns True if a node draws random numbers from a seed; unseeded nodes always draw different numbers."""
    return "seed" in node.attr and "seed2" in node.attr and bool(node.attr["seed"].i or node.attr["seed2"].i)


def make_seed_distinct(node: v1.NodeDef, number: int) -> None:
    """Changes the seed of a random operation in the copy of a number; leaves other nodes as they are."""
    if has_seed(node):
        node.attr["seed2"].i += number << 32


def _is_call(op: tf.Operation) -> bool:
    return op.type.startswith(FUNCTION_PREFIXES)


def _references_in(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if value.HasField("func"):
            yield value.func
        yield from value.list.func


def _names_in(values: Iterable[Any]) -> list[str]:
    return [reference.name for reference in _references_in(values)]


def _copy_name(name: str, number: int) -> str:
    return f"{name}_step_{number}"
