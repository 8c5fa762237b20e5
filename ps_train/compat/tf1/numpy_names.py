"""Names of NumPy that it has lost since TensorFlow 1: programs of that time write `np.int` and `np.float`.

    restore()
    np.zeros(3).astype(np.int)

Only absent names are added, each as what NumPy had under it.
"""

from __future__ import annotations

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


def restore() -> None:
    """Adds those of the names that this NumPy does not have."""
    for name, value in _NAMES.items():
        if name not in np.__dict__:
            setattr(np, name, value)
