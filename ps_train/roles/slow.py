"""A replica that is slower than it need be, for --inject=slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def slowed(run: Callable[P, T], factor: float) -> Callable[P, T]:
    """The same function, whose every call takes so many times longer."""

    def slow(*args: P.args, **kwargs: P.kwargs) -> T:
        began = time.monotonic()
        result = run(*args, **kwargs)
        time.sleep((factor - 1) * (time.monotonic() - began))
        return result

    return slow
