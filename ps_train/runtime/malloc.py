"""Memory that a step gives back is kept for the next one.

A step of a large model allocates and frees hundreds of megabytes.  glibc by default maps every large block anew, and
the kernel fills it with zeros page by page; see docs/decisions/0011-environment.md for what that costs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

MMAP_BYTES = 128 << 20
"""Blocks below this come from the heap."""

TRIM_BYTES = 512 << 20
"""So much free memory at the heap's end is kept."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def tune_malloc(environ: Mapping[str, str]) -> bool:
    """Whether it was done: not where the user has set glibc's malloc himself, and not without glibc."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(
        mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES) and mallopt(_M_TRIM_THRESHOLD, TRIM_BYTES)
    )
