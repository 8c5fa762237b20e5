"""The global step that a model_fn is given; the engine counts it.

    with counted_step():
        spec = model_fn(features, labels, mode)

A model_fn may count steps itself: `tf.assign_add(global_step, 1)`, which then changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.engine.variables.assigned_variables import writers
from ps_train.engine.variables.copied_functions import FunctionLibrary
from ps_train.engine.variables.global_step import overriding_global_step
from ps_train.engine.variables.model_variable import ModelVariable


def operations_of(fetches: Any) -> list[tf.Operation]:
    """Returns the operations that TensorFlow runs for fetches of the default graph.

    Args:
      fetches: operations, tensors, variables or names of them, in any structure; None is nothing.
    """
    graph, found = v1.get_default_graph(), list[tf.Operation]()
    for fetch in tf.nest.flatten(fetches, expand_composites=True):
        if isinstance(fetch, tf.Variable):
            found.append(fetch.op)
        elif fetch is not None:
            element = graph.as_graph_element(fetch)
            found.append(element if isinstance(element, tf.Operation) else element.op)
    return found


def ancestors(fetches: Any, stop: Collection[tf.Operation] = (), with_control: bool = False) -> list[tf.Operation]:
    """Returns operations and those that they need.

    Args:
      fetches: where the walk begins; see `operations_of`.
      stop: operations behind which it ends.
      with_control: follows control inputs too.
    """
    found: dict[tf.Operation, None] = {}
    pending = [fetches] if isinstance(fetches, tf.Operation) else operations_of(fetches)
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


_ADDS = "AssignAddVariableOp"


class CountedStep(ModelVariable):
    """A global step with the value of this step."""

    trainable = False

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Returns the sum, or an operation if it is not read; nothing is assigned."""
        total = tf.add(self.value(), tf.cast(delta, self.dtype), name=name)
        return total if read_value else total.op


@contextlib.contextmanager
def counted_step() -> Iterator[None]:
    """Makes the graph's global step a CountedStep within the body, if it is a tensor."""
    step = v1.train.get_global_step()
    if isinstance(step, tf.Tensor):
        with overriding_global_step(CountedStep("global_step", step)):
            yield
    else:
        yield


def check_counting(train_op: Any, step: Any) -> None:
    """Checks that a train_op adds 1 to the global step, or leaves that to the engine.

    Raises:
      CaptureError: it counts in another way.
    """
    total, runs = 0, set(ancestors(train_op, with_control=True))
    for op in writers(step.handle, FunctionLibrary.of(step.graph.get_operations()), step.initializer):
        if op not in runs:
            continue
        is_plain = op.type == _ADDS and op.inputs[0] is step.handle
        delta = tf.get_static_value(op.inputs[1]) if is_plain else None
        if delta is None:
            raise CaptureError(f"{op.name} ({op.type}) sets the global step")
        total += int(delta)
    if total > 1:
        raise CaptureError(f"the train_op adds {total} to the global step")
