"""Python's search for cycles, out of the way of a start.

    postpone()        # before TensorFlow is imported
    begin()           # when the graphs are made

What an import and the making of a graph leave stays as long as the process.  To walk those half a million objects again
and again takes a sixth of the import; to walk them once before training takes as long as the making of a small graph.
"""

from __future__ import annotations

import gc


def disable() -> None:
    """Nothing is looked for from now on."""
    gc.disable()


def freeze() -> None:
    """What is there now is never walked again, neither here nor in a copy of this process, where that would copy all
    memory, too."""
    gc.freeze()


def resume() -> None:
    """Cycles are found that come from now on."""
    freeze()
    gc.enable()
