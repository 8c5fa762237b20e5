"""Scopes of a strategy that a `fit` leaves while it trains.

    with strategy.scope():
        with outside_scopes():
            assert not tf.distribute.has_strategy()

A step and the update rules of an optimizer are traced for one worker.  In a scope they would be traced for a strategy,
on its device and with its way of making variables.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

_of_thread = threading.local()


def _entered() -> list[Scope]:
    if not hasattr(_of_thread, "scopes"):
        _of_thread.scopes = []
    found: list[Scope] = _of_thread.scopes
    return found


class Scope(AbstractContextManager[Any]):
    """A scope that can be left and entered again.

    Args:
      make: makes TensorFlow's scope, which can be entered once.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make, self._scope = make, make()

    def __enter__(self) -> Any:
        _entered().append(self)
        return self._scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        _entered().remove(self)
        self._scope.__exit__(*error)

    def leave(self) -> None:
        """Leaves TensorFlow's scope."""
        self._scope.__exit__(None, None, None)

    def enter_again(self) -> None:
        """Enters a scope of TensorFlow as before."""
        self._scope = self._make()
        self._scope.__enter__()


@contextlib.contextmanager
def outside_scopes() -> Iterator[None]:
    """Leaves all scopes of this thread for the body."""
    scopes = [*_entered()]
    for scope in reversed(scopes):
        scope.leave()
    _entered().clear()
    try:
        yield
    finally:
        for scope in scopes:
            scope.enter_again()
        _entered()[:] = scopes
