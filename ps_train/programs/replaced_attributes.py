"""Functions of TensorFlow's classes and modules that others take the place of for a while."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

_lock = threading.RLock()


@contextlib.contextmanager
def replaced(attributes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replaces attributes within the body, for all threads; another thread's body waits for the end of this one.

    Args:
      attributes: (owner, name, value in the body); an owner that inherits the attribute inherits it again afterwards.
    """
    with _lock, contextlib.ExitStack() as undo:
        for owner, name, value in attributes:
            if name in vars(owner):
                undo.callback(setattr, owner, name, vars(owner)[name])
            else:
                undo.callback(delattr, owner, name)
            setattr(owner, name, value)
        yield
