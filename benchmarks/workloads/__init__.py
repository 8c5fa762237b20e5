"""The workloads, one a file.  A new one is a file here that defines one subclass of `Workload`.

workload = load("small")
"""

from __future__ import annotations

import importlib
import pkgutil

from benchmarks.errors import UsageError
from benchmarks.workloads.base import Workload

_NOT_WORKLOADS = ("base", "residual")


def names() -> list[str]:
    """Of all workloads, found by their files."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _NOT_WORKLOADS)


def load(name: str) -> Workload:
    """The workload of that name."""
    return workload_class(name)()


def workload_class(name: str) -> type[Workload]:
    if name not in names():
        raise UsageError(f"workloads={name} is not known: use some of {', '.join(names())}.")
    module = importlib.import_module(f"{__name__}.{name}")
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Workload) and value.__module__ == module.__name__
    ]
    assert len(found) == 1, f"{module.__name__} must define one Workload, not {len(found)}"
    return found[0]
