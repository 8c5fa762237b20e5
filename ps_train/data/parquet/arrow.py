"""The modules of pyarrow, an extra: each is imported when one of its names is first used.

from ps_train.data.parquet.arrow import pa, pc
pa.array([1, 2])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["pa", "pc", "pq"]


class _LateModule:
    """A module that is imported when it is first used.

    Args:
      name: of the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[type[_LateModule], tuple[str]]:
        return _LateModule, (self._name,)  # a sent function may use the module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = map(_LateModule, ("pyarrow", "pyarrow.compute", "pyarrow.parquet"))
