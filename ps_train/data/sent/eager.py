"""Eager execution in the middle of a graph's making.

A user's function that makes data may read them; so it must run eagerly, also when a graph is the default one.  Both
modes belong to a thread, so another thread is what the public API has for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

T = TypeVar("T")


def eagerly(function: Callable[[], T]) -> T:
    """Returns a function's value, or raises its exception; the function runs eagerly."""
    if tf.executing_eagerly():
        return function()
    result: dict[str, Any] = {}

    def call() -> None:
        try:
            result["value"] = function()
        except BaseException as error:
            result["error"] = error

    thread = threading.Thread(target=call, name="ps_train_eager", daemon=True)
    thread.start()
    thread.join()
    if "error" in result:
        raise result["error"]
    value: T = result["value"]
    return value
