"""Walks through a graph: what an operation needs, and what needs it."""

from __future__ import annotations

from collections.abc import Collection

import tensorflow as tf


def ancestors(
    operation: tf.Operation, stop: Collection[tf.Operation] = (), with_control: bool = False
) -> list[tf.Operation]:
    """Returns an operation and those that it needs.

    Args:
      operation: where the walk begins.
      stop: operations behind which it ends.
      with_control: follows control inputs too.
    """
    found: dict[tf.Operation, None] = {}
    pending = [operation]
    while pending:
        op = pending.pop()
        if op not in found:
            found[op] = None
            if op not in stop:
                pending += [source.op for source in op.inputs]
                pending += op.control_inputs if with_control else ()
    return list(found)


def readers(operation: tf.Operation, through: Collection[str]) -> list[tf.Operation]:
    """Returns the operations that run after an operation.

    Args:
      operation: where the walk begins.
      through: types of operations behind which it goes on.
    """
    graph, found, pending = operation.graph, dict[tf.Operation, None](), [operation]
    after: dict[tf.Operation, list[tf.Operation]] = {}
    for other in graph.get_operations():
        for before in other.control_inputs:
            after.setdefault(before, []).append(other)
    while pending:
        current = pending.pop()
        for other in [*after.get(current, ()), *(reader for out in current.outputs for reader in out.consumers())]:
            if other not in found:
                found[other] = None
                if other.type in through:
                    pending.append(other)
    return list(found)
