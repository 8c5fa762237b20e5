"""A directory by which the launcher of a program, its chief and its other tasks agree on what to train.

    with asked_in(environ) as environ:          # the launcher
        ...
        end(environ)                            # when the chief has ended
    is_over(directory)                          # a task that waits to be asked

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

_END = "end"


@contextlib.contextmanager
def asked_in(environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Makes the directory for the body; yields the environment of the tasks."""
    with tempfile.TemporaryDirectory(prefix="ps_train_asked_") as directory:
        yield {**environ, DIRECTORY_VARIABLE: directory}


def end(environ: Mapping[str, str]) -> None:
    """Tells the tasks that nothing more will be asked."""
    with contextlib.suppress(OSError):
        pathlib.Path(environ[DIRECTORY_VARIABLE], _END).touch()


def is_over(directory: str) -> bool:
    """Returns whether nothing more will be asked; a directory that is gone tells so too."""
    return not os.path.isdir(directory) or os.path.exists(os.path.join(directory, _END))
