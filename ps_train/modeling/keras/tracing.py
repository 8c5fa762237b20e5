"""How a Keras model is traced: the state of the thread, the variables that are made, and the check of Keras itself.

    with tracing():
        function.get_concrete_function(batch)       # num_replicas_in_sync is 1 in the body

Keras and `tf.nn.compute_average_loss` divide a loss by the number of replicas of the current strategy.  A traced step
is one worker's, and the engine averages over workers, so that division must not happen.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ps_train.base.errors import ConfigError

_WHICH_KERAS = "TF_USE_LEGACY_KERAS"

_Traced = TypeVar("_Traced")

_is_tracing: contextvars.ContextVar[bool] = contextvars.ContextVar("is_tracing", default=False)


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Marks the body as the tracing of a step, in this thread."""
    token = _is_tracing.set(True)
    try:
        yield
    finally:
        _is_tracing.reset(token)


def is_tracing() -> bool:
    """Returns True within the body of `tracing`."""
    return _is_tracing.get()


def traced_built(model: Any, trace: Callable[[], _Traced]) -> _Traced:
    """Returns what `trace` returns once layers, metrics and the optimizer have made the variables that they lacked."""
    before = _count(model)
    found = trace()
    return found if _count(model) == before else trace()


def _count(model: Any) -> int:
    optimizer = getattr(model, "optimizer", None)
    return sum(map(len, (model.variables, model.metrics_variables, optimizer.variables if optimizer else ())))


def check_keras() -> None:
    """Checks that `tf.keras` is Keras 3 on TensorFlow.

    Raises:
      ConfigError: it is tf-keras, or Keras 3 on another backend.
    """
    legacy = os.environ.get(_WHICH_KERAS, "")
    if legacy in ("true", "True", "1"):  # as TensorFlow reads it
        raise ConfigError(
            f"{_WHICH_KERAS}={legacy} (from the environment) selects tf-keras (Keras 2): ps_train trains models of "
            f"Keras 3 alone; unset {_WHICH_KERAS}."
        )
    import keras  # late: the first check needs none

    if keras.backend.backend() != "tensorflow":
        raise ConfigError(
            f"Keras's backend is {keras.backend.backend()!r} (from KERAS_BACKEND, or from keras.json): ps_train trains "
            "graphs of TensorFlow; set KERAS_BACKEND=tensorflow."
        )
