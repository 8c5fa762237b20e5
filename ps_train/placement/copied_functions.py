"""Functions that copies of a step call (branches, loop bodies, `tf.function`s), with random numbers of their own.

    library = FunctionLibrary.of(ops)
    graph_def.library.CopyFrom(library.copy_for(graph_def.node, number=3))      # renames the functions in the nodes

A random operation within a function has the seed of its place in the function: two calls of one function would draw
the same numbers.  So a function that draws any, itself or through others, exists once for every copy.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

_FIRST_ARGUMENT = {
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), 1),
    **dict.fromkeys(("While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall"), 0),
}
"""Types of operations that call functions, and which of their inputs is the functions' first argument."""


class FunctionLibrary:
    """The functions of a graph.

    Args:
      functions: name to FunctionDef.
    """

    def __init__(self, functions: dict[str, Any]) -> None:
        self._functions = functions
        self.drawing = functools.cache(self._drawing)

    @classmethod
    def of(cls, ops: Sequence[tf.Operation]) -> FunctionLibrary:
        """Collects those of the graph of some operations; none where no operation calls any."""
        if not any(_names_in(op.node_def.attr.values()) for op in ops) and not any(_is_call(op) for op in ops):
            return cls({})
        library = ops[0].graph.as_graph_def().library
        return cls({function.signature.name: function for function in library.function})

    def nodes_of(self, node: v1.NodeDef) -> Iterator[v1.NodeDef]:
        """Yields the nodes of all functions that a node may call, through others too."""
        seen: set[str] = set()
        waiting = self._called_by(node)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                for inner in self._functions[name].node_def:
                    yield inner
                    waiting += self._called_by(inner)

    def writes(self, node: v1.NodeDef, index: int, reads: Sequence[str]) -> bool:
        """Whether a node does anything to the resource that is its input of that index but what `reads` names, itself
        or through a function."""
        if node.op not in _FIRST_ARGUMENT:
            return node.op not in reads
        position = index - _FIRST_ARGUMENT[node.op]
        for name in self._called_by(node):
            function = self._functions[name]
            argument = function.signature.input_arg[position].name
            for inner in function.node_def:
                taken = [number for number, text in enumerate(inner.input) if text.partition(":")[0] == argument]
                if any(self.writes(inner, number, (*reads, "Identity")) for number in taken):
                    return True
        return False

    def copy_for(self, nodes: Iterable[v1.NodeDef], number: int) -> Any:
        """Makes the nodes call copies of the functions that draw random numbers; returns these copies."""
        library = v1.GraphDef().library
        waiting, made = [name for node in nodes for name in self._renamed_in(node, number)], set[str]()
        while waiting:
            name = waiting.pop()
            if name in made:
                continue
            made.add(name)
            function = library.function.add()
            function.CopyFrom(self._functions[name])
            function.signature.name = _copy_name(name, number)
            for node in function.node_def:
                make_seed_distinct(node, number)
                waiting += self._renamed_in(node, number)
        return library

    def _renamed_in(self, node: v1.NodeDef, number: int) -> list[str]:
        """Renames what a node calls, where that draws; returns the names before."""
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
    """Whether it draws random numbers from a seed; without one they differ anyhow."""
    return "seed" in node.attr and "seed2" in node.attr and bool(node.attr["seed"].i or node.attr["seed2"].i)


def make_seed_distinct(node: v1.NodeDef, number: int) -> None:
    """Gives a random operation of the copy of that number a seed of its own."""
    if has_seed(node):
        node.attr["seed2"].i += number << 32


def _is_call(op: tf.Operation) -> bool:
    return op.type.startswith("__inference") or op.type.startswith("__forward")


def _references_in(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if value.HasField("func"):
            yield value.func
        yield from value.list.func


def _names_in(values: Iterable[Any]) -> list[str]:
    return [reference.name for reference in _references_in(values)]


def _copy_name(name: str, number: int) -> str:
    return f"{name}_step_{number}"
