"""The replica for which a model is being built.

    with building_for(2):
        outputs = model.forward(features, training=True)        # replica_index() is 2

A model draws other random numbers in each replica by it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_index: contextvars.ContextVar[int] = contextvars.ContextVar("replica", default=0)


@contextlib.contextmanager
def building_for(index: int) -> Iterator[None]:
    """Makes the body build a replica's graph."""
    token = _index.set(index)
    try:
        yield
    finally:
        _index.reset(token)


def replica_index() -> int:
    """Returns the index of the replica; 0 where none is being built."""
    return _index.get()
