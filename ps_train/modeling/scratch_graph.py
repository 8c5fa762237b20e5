"""Scratch graphs: a model is built in them to be looked at, and they never run.  Initial values are left out of them.

with scratch_graph() as graph:
    variable = v1.get_variable(name, **without_values(arguments))
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

_is_scratch: contextvars.ContextVar[bool] = contextvars.ContextVar("the default graph never runs", default=False)

_OF_ANY_SHAPE = ("Zeros", "Ones", "RandomUniform", "RandomNormal", "TruncatedNormal", "VarianceScaling")
"""Classes of TensorFlow's and Keras's initializers that take every shape, so leaving them out hides no error."""


@contextlib.contextmanager
def scratch_graph() -> Iterator[tf.Graph]:
    """Makes a graph that never runs the default graph of the body."""
    token = _is_scratch.set(True)
    try:
        with tf.Graph().as_default() as graph:
            yield graph
    finally:
        _is_scratch.reset(token)


def is_scratch() -> bool:
    """Returns True if the default graph never runs."""
    return _is_scratch.get()


def no_value(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
    """Returns a placeholder of this shape: the initial value of a variable that the graph does not initialize."""
    return v1.placeholder(dtype, shape)


def without_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments of get_variable for the default graph: in a scratch graph without most initial values.

    The variable keeps its initializer if it is not trained, since the model may then read the initial value.
    """
    found, shape, initializer = dict(arguments), arguments.get("shape"), arguments.get("initializer")
    dtype = tf.as_dtype(arguments.get("dtype") or tf.float32)
    if (
        is_scratch()
        and shape is not None
        and tf.TensorShape(shape).is_fully_defined()
        and arguments.get("trainable") is not False
        and dtype.is_floating
        and _takes_any_shape(initializer)
    ):
        found["initializer"] = no_value
    return found


def _takes_any_shape(initializer: Any) -> bool:
    if initializer is None:
        return True
    kind = initializer if isinstance(initializer, type) else type(initializer)
    classes = [one for one in kind.__mro__ if one is not object]
    return all(one.__module__.split(".")[0] in ("tensorflow", "keras") for one in classes) and any(
        one.__name__ in _OF_ANY_SHAPE for one in classes
    )
