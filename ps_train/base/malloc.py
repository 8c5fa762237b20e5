"""Tuning of glibc's malloc: it keeps the memory that a step frees for the next step.

A step of a large model allocates and frees hundreds of megabytes.  By default glibc maps every large block again, and
the kernel fills it with zeros page by page.  docs/decisions/0011-environment.md gives the cost.

By default glibc also keeps up to 8 arenas for each core.  TensorFlow's many threads allocate in one and free in
another, so a long job spreads over all of them (docs/decisions/0021-what-a-recovery-leaves.md).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

MMAP_BYTES = 128 << 20
"""Blocks smaller than this come from the heap."""

TRIM_BYTES = 512 << 20
"""The free memory that is kept at the heap's end."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h


def tune_malloc(environ: Mapping[str, str]) -> bool:
    """Tunes malloc for this process; returns whether it did.

    Args:
      environ: the environment.  With any setting of malloc in it, and without glibc, nothing is changed.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    arenas = max(2, os.cpu_count() or 1)
    settings = {_M_MMAP_THRESHOLD: MMAP_BYTES, _M_TRIM_THRESHOLD: TRIM_BYTES, _M_ARENA_MAX: arenas}
    return all(mallopt(name, value) for name, value in settings.items())
