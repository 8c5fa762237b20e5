"""The form of tensor shapes: `shape[0]` is a number, or in programs for TensorFlow 1 an object with a `value`.

    with tensor_shapes(of_numbers=True):        # for the engine
        train(program)
    model_fn = in_form_of_now(model_fn)         # called in the form that the program has chosen

The form is a setting of the whole process.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


def are_of_numbers() -> bool:
    """Returns True if the sizes in a shape are numbers."""
    return isinstance(tf.TensorShape([1])[0], int)


@contextlib.contextmanager
def tensor_shapes(of_numbers: bool) -> Iterator[None]:
    """Gives shapes this form within the body."""
    before = are_of_numbers()
    _set(of_numbers)
    try:
        yield
    finally:
        _set(before)


def in_form_of_now(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs in the form that shapes have now."""
    if are_of_numbers():
        return function

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with tensor_shapes(of_numbers=False):
            return function(*arguments, **options)

    return call


def _set(of_numbers: bool) -> None:
    if of_numbers:
        v1.enable_v2_tensorshape()
    else:
        v1.disable_v2_tensorshape()
