"""The start of a job: a cluster on this machine, or on several hosts by `python -m ps_train.launch`.

Standard library, `config`, `cluster.spec` and `runtime` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ps_train.commands.launch.command import main

__all__ = ["main"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late: a task that is started by ssh needs none of its imports
        from ps_train.commands.launch import command as program

        return program.main
    raise AttributeError(f"module 'ps_train.launch' has no attribute {name!r}; it has {', '.join(__all__)}")
