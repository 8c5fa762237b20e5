"""When a pushed gradient becomes a new value."""

from __future__ import annotations

from ps_train.updates.base import Update


def make_update(name: str) -> Update:
    """The update mode of that name (`config.UPDATES`)."""
    from ps_train.updates.asynchronous import Asynchronous
    from ps_train.updates.synchronous import Synchronous

    return {"async": Asynchronous, "sync": Synchronous}[name]()
