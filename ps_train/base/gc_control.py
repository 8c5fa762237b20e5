"""Control of Python's garbage collector, which would slow down the start.

    disable()                # before TensorFlow is imported
    collect_if_disabled()    # when graphs have been made that are of no more use
    resume()                 # when the graphs are made
    with suspended(): ...    # within a program that goes on afterwards

An import and the making of a graph create half a million objects that live as long as the process.  Traversing them
repeatedly takes a sixth of the import.  Traversing them once before training takes as long as making a small graph.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


def disable() -> None:
    """Stops the search for cycles."""
    gc.disable()


def collect_if_disabled() -> None:
    """Frees what only cycles refer to, unless the collector does so by itself.

    A graph is full of cycles.  `resume` would keep one that is of no more use for the life of the process.
    """
    if not gc.isenabled():
        gc.collect()


def freeze() -> None:
    """Excludes all present objects from the search, in this process and in its forked copies.

    A search in a forked copy would also copy all memory.
    """
    gc.freeze()


def resume() -> None:
    """Excludes all present objects, and resumes the search for new cycles."""
    freeze()
    gc.enable()


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Stops the search for cycles until `resume`, at most for the body; a program's own choice is there afterwards."""
    was_enabled = gc.isenabled()
    disable()
    try:
        yield
    finally:
        (gc.enable if was_enabled else gc.disable)()
