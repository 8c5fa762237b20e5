"""Marks of how a model uses each variable, by which two processes see that their names mean other variables.

    uses = variable_uses(loss, {"w": value_of_w}, initializers)      # {"w": ["3f2a…", …]}

TensorFlow numbers equal names in the order in which a model makes its variables.  In two processes with another order,
as of a set of strings, `w_1` is not the same variable.  A mark says what a variable begins with, or what computes with
it up to some distance: types of operations, small constants and features of the input.  It does not know seeds, names
of operations, or how far the loss is.  Models of two workers may differ in other ways, so `job_diff.py` looks for
exchanged marks only.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.engine.variables.initial_tensor import InitialTensor

_FORWARD, _BACK, _LARGEST = 6, 4, 64
"""Operations to look ahead and back, and the largest constant whose values count."""


def variable_uses(
    results: tf.Tensor | Sequence[tf.Tensor], values: Mapping[str, tf.Tensor], initializers: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Returns the marks of each variable, for one distance after the other.

    Args:
      results: the loss, or what else is computed; only operations that it needs count.
      values: name to the tensor of each variable in the graph of the results: its value, or its handle.
      initializers: name to the variable's initial value: an initializer, an array, a tensor or anything else.
    """
    marks = _Marks(results if isinstance(results, Sequence) else [results], values)

    def initial(name: str) -> str:
        given = initializers.get(name)
        return marks.back(given) if isinstance(given, tf.Tensor) else _digest(_initial(given))

    return {
        name: [initial(name), *(marks.ahead(value, far) for far in range(1, _FORWARD + 1))]
        for name, value in values.items()
    }


class _Marks:
    def __init__(self, results: Sequence[tf.Tensor], values: Mapping[str, tf.Tensor]) -> None:
        self._needed, pending = set[tf.Operation](), [tensor.op for tensor in results]
        while pending:
            op = pending.pop()
            if op not in self._needed:
                self._needed.add(op)
                pending += [tensor.op for tensor in op.inputs]
        self._variables = {tensor.ref() for tensor in values.values()}
        self._known: dict[tuple[Any, int, bool], str] = {}

    def ahead(self, tensor: tf.Tensor, far: int) -> str:
        """Returns a mark of what computes with a tensor up to a distance."""
        key = (tensor.ref(), far, True)
        if far and key not in self._known:
            found = []
            for op in {op: None for op in tensor.consumers() if op in self._needed}:
                inputs = ["*" if one is tensor else self.back(one) for one in op.inputs]
                found.append(repr((op.type, inputs, [self.ahead(one, far - 1) for one in op.outputs])))
            self._known[key] = _digest(repr(sorted(found)))
        return self._known[key] if far else ""

    def back(self, tensor: tf.Tensor, far: int = _BACK) -> str:
        """Returns a mark of what a tensor is computed from, up to a distance."""
        if tensor.ref() in self._variables:
            return f"variable {tensor.shape}"
        op, key = tensor.op, (tensor.ref(), far, False)
        if key not in self._known:
            inputs = [self.back(one, far - 1) for one in op.inputs] if far else []
            value = _constant(tensor) if op.type == "Const" else ""
            self._known[key] = _digest(repr((op.type, tensor.value_index, value, inputs)))
        return self._known[key]


def _constant(tensor: tf.Tensor) -> str:
    size = tensor.shape.num_elements()
    value = tf.get_static_value(tensor) if size is not None and size <= _LARGEST else None
    return str(tensor.shape) if value is None else repr(np.asarray(value).tolist())


def _initial(initializer: Any) -> str:
    """Returns a mark of an initial value, without seeds."""
    kind = initializer if isinstance(initializer, type) else type(initializer)
    if isinstance(initializer, np.ndarray):
        return f"{initializer.dtype} {initializer.shape} {_digest(initializer.tobytes().hex())}"
    if isinstance(initializer, InitialTensor):
        nodes = [(node.op, node.attr["value"].SerializeToString()) for node in initializer.nodes.node]
        return repr(sorted((kind, repr(text if len(text) <= 8 * _LARGEST else len(text))) for kind, text in nodes))
    config: Mapping[str, Any] = {}
    if hasattr(initializer, "get_config") and not isinstance(initializer, type):
        with contextlib.suppress(Exception):  # the user's own, of which training needs no settings
            config = initializer.get_config()
    settings = sorted((key, repr(value)) for key, value in config.items() if "seed" not in key)
    return f"{kind.__name__} {settings}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
