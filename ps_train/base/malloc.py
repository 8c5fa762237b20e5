"""Tuning of glibc's malloc: it keeps the memory that a step frees for the next step.

A step of a large model allocates and frees hundreds of megabytes.  By default glibc maps every large block again, and
the kernel fills it with zeros page by page.  docs/decisions/0011-environment.md gives the cost.

By default glibc also keeps up to 8 arenas for each core.  TensorFlow's many threads allocate in one and free in
another, so a long job spreads over all of them (docs/decisions/0021-what-a-recovery-leaves.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping

MMAP_BYTES = 128 << 20
"""Blocks smaller than this come from the heap."""

TRIM_BYTES = 512 << 20
"""The free memory that is kept at the heap's end."""

RETURNED_BYTES = 1 << 20
"""Blocks of this size and larger are returned to the system when they are freed, if so wished."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h


def tune_malloc(environ: Mapping[str, str]) -> bool:
    """Tunes malloc for this process; returns whether it did.

    Args:
      environ: the environment.  With any setting of malloc in it, and without glibc, nothing is changed.
    """
    global _is_tuned
    arenas = max(2, os.cpu_count() or 1)
    settings = {_M_MMAP_THRESHOLD: MMAP_BYTES, _M_TRIM_THRESHOLD: TRIM_BYTES, _M_ARENA_MAX: arenas}
    _is_tuned = _set(settings, environ)
    return _is_tuned


def return_large_blocks(environ: Mapping[str, str]) -> bool:
    """Makes malloc return each large block to the system when it is freed; returns whether it did.

    It is for a process whose memory is to be small, and which reads large blocks one after the other.

    Args:
      environ: as in `tune_malloc`.
    """
    return _set({_M_MMAP_THRESHOLD: RETURNED_BYTES}, environ)


@contextlib.contextmanager
def large_blocks_returned(environ: Mapping[str, str]) -> Iterator[None]:
    """Lets malloc return large blocks within the body; afterwards the process keeps them again if it is tuned.

    Args:
      environ: as in `tune_malloc`.
    """
    return_large_blocks(environ)
    try:
        yield
    finally:
        if _is_tuned:
            tune_malloc(environ)


_is_tuned = False


def _set(settings: Mapping[int, int], environ: Mapping[str, str]) -> bool:
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(name, value) for name, value in settings.items())
