"""A directory by which the launcher of a program, its chief and its other tasks agree on what to train.

    with asked_in(environ, asks_workers=True) as environ:       # the launcher
        ...
        end(environ)                            # when the chief has ended
    is_over(directory)                          # a task that waits to be asked

A ps waits there for every `fit` of the chief.  Workers do so in a program with a coordinator, whose workers only serve.

Standard library only, since the launcher uses it.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping

DIRECTORY_VARIABLE = "PS_TRAIN_ASKED_IN"
"""Environment variable: the directory."""

_END, _ASKS_WORKERS = "end", "asks_workers"


@contextlib.contextmanager
def asked_in(environ: Mapping[str, str], asks_workers: bool) -> Iterator[dict[str, str]]:
    """Makes the directory for the body; yields the environment of the tasks.

    Args:
      environ: the environment of the launcher.
      asks_workers: whether the program's workers only serve.
    """
    with tempfile.TemporaryDirectory(prefix="ps_train_asked_") as directory:
        if asks_workers:
            pathlib.Path(directory, _ASKS_WORKERS).touch()
        yield {**environ, DIRECTORY_VARIABLE: directory}


def end(environ: Mapping[str, str]) -> None:
    """Tells the tasks that nothing more will be asked."""
    with contextlib.suppress(OSError):
        pathlib.Path(environ[DIRECTORY_VARIABLE], _END).touch()


def asks_workers(directory: str) -> bool:
    """Returns whether the chief asks workers too; False for ""."""
    return bool(directory) and os.path.exists(os.path.join(directory, _ASKS_WORKERS))


def is_over(directory: str) -> bool:
    """Returns whether nothing more will be asked; a directory that is gone tells so too."""
    return not os.path.isdir(directory) or os.path.exists(os.path.join(directory, _END))
