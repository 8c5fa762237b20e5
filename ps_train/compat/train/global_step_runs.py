"""Analysis of a graph: which calls of `session.run` train, that is, change the global step.

changes = GlobalStepChanges(graph)
changes.by([train_op, loss])        # True
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ps_train.compat.train.global_step import get_global_step

_READERS = ("ReadVariableOp", "VarIsInitializedOp", "IsVariableInitialized", "Identity", "Shape", "VariableShape")
_PASSING = ("Switch", "RefSwitch", "Enter", "RefEnter")


class GlobalStepChanges:
    """Finder of the operations that change a graph's global step, and of the fetches that need them.

    Args:
      graph: the graph; a graph without a global step has no such operation.
    """

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self._writers: set[str] | None = None
        self._known: dict[frozenset[str], bool] = {}

    def by(self, fetches: Any) -> bool:
        """Returns whether a call with these fetches, of any structure, changes the global step."""
        if self._writers is None:
            self._writers = _writers_of(self._graph)
        if not self._writers:
            return False
        names = frozenset(self._operations_of(fetches))
        if names not in self._known:
            self._known[names] = self._reaches_writer(names)
        return self._known[names]

    def _operations_of(self, fetches: Any) -> list[str]:
        found = []
        for fetch in tf.nest.flatten(fetches, expand_composites=True):
            if fetch is None:
                continue
            element = self._graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
            found.append(element.name if isinstance(element, tf.Operation) else element.op.name)
        return found

    def _reaches_writer(self, names: frozenset[str]) -> bool:
        assert self._writers is not None
        seen, todo = set(names), [self._graph.get_operation_by_name(name) for name in names]
        while todo:
            op = todo.pop()
            if op.name in self._writers:
                return True
            for needed in [*(tensor.op for tensor in op.inputs), *op.control_inputs]:
                if needed.name not in seen:
                    seen.add(needed.name)
                    todo.append(needed)
        return False


def _writers_of(graph: tf.Graph) -> set[str]:
    step = get_global_step(graph)
    if step is None or not hasattr(step, "initializer"):
        return set()
    handle = step.handle if hasattr(step, "handle") else graph.get_tensor_by_name(f"{step.op.name}:0")
    found, todo = set(), [handle]
    while todo:
        for consumer in todo.pop().consumers():
            if consumer.type in _PASSING:
                todo += consumer.outputs
            elif consumer.type not in _READERS:
                found.add(consumer.name)
    return found - {step.initializer.name}
