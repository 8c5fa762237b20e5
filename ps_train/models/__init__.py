"""The models that ship with the package."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ps_train.models import (
        cifar10,
        classifier,
        clicks,
        criteo,
        dcn,
        digits,
        din,
        esmm,
        images,
        layers,
        mnist,
        multitask,
        two_tower,
    )

__all__ = [
    "cifar10",
    "classifier",
    "clicks",
    "criteo",
    "dcn",
    "digits",
    "din",
    "esmm",
    "images",
    "layers",
    "mnist",
    "multitask",
    "two_tower",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
