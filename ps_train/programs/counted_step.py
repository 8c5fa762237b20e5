"""The global step that a model_fn is given; the engine counts it.

    with counted_step():
        spec = model_fn(features, labels, mode)

A model_fn may count steps itself: `tf.assign_add(global_step, 1)`, which then changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.assigned_variables import writers
from ps_train.placement.copied_functions import FunctionLibrary
from ps_train.placement.global_step import overriding_global_step
from ps_train.placement.model_variable import ModelVariable
from ps_train.programs.capture_error import CaptureError
from ps_train.programs.graph_walk import ancestors

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


def check_counting(train_op: tf.Operation, step: Any) -> None:
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
