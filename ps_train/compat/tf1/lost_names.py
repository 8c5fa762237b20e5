"""Names that NumPy and Python have lost since TensorFlow 1: `np.int`, `np.float`, `collections.Mapping`.

    restore()
    np.zeros(3).astype(np.int)

Only absent names are added, each as what was there under it.
"""

from __future__ import annotations

import collections
import collections.abc
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["restore"]

_NAMES: dict[str, Any] = {
    # Until 1.24 they were Python's own types.
    "complex": complex,
    "float": float,
    "int": int,
    "object": object,
    "str": str,
    "unicode": str,
    # Until 2.0.
    "Inf": np.inf,
    "Infinity": np.inf,
    "NaN": np.nan,
    "alltrue": np.all,
    "asfarray": lambda array, dtype=np.float64: np.asarray(array, dtype),
    "complex_": np.complex128,
    "cumproduct": np.cumprod,
    "float_": np.float64,
    "infty": np.inf,
    "int0": np.intp,
    "mat": np.asmatrix,
    "product": np.prod,
    "round_": np.round,
    "sometrue": np.any,
    "string_": np.bytes_,
    "unicode_": np.str_,
    # Until 2.4.
    "in1d": lambda array, values, **options: np.isin(np.ravel(array), values, **options),
    "row_stack": np.vstack,
}


_OF_MODULES: list[tuple[ModuleType, dict[str, Any]]] = [
    (np, _NAMES),
    (collections, {name: getattr(collections.abc, name) for name in collections.abc.__all__}),  # until Python 3.10
]


def restore() -> None:
    """Adds those of the names that this NumPy and this Python do not have."""
    for module, names in _OF_MODULES:
        for name in names.keys() - vars(module).keys():
            setattr(module, name, names[name])
