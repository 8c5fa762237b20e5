"""Runs code while TensorFlow executes eagerly, whatever graph is being built.

    step = eagerly(lambda: trace_step(model, batch))

A new thread has no graph.  Keras keeps some of its state by thread; the dtype policy is carried over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from ps_train.base.errors import ModelError

_Result = TypeVar("_Result")


def eagerly(work: Callable[[], _Result]) -> _Result:
    """Returns the result of a function that is called in a thread of its own.

    Raises:
      ModelError: eager execution was disabled in this process.
      Exception: the one that the function raised.
    """
    import keras  # late: a job without Keras does not import it

    results: list[_Result] = []
    errors: list[BaseException] = []
    policy: Any = keras.config.dtype_policy()

    def run() -> None:
        try:
            if not tf.executing_eagerly():
                raise ModelError(
                    "a Keras model is traced while TensorFlow executes eagerly, which this program has disabled: leave "
                    "tf.compat.v1.disable_eager_execution() out."
                )
            keras.config.set_dtype_policy(policy)
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="tracing")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
