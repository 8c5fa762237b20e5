"""The import of TensorFlow: without its chatter, and without Keras.

    import_tensorflow(verbose=False)

The last thing that TensorFlow does is to import Keras, and it does without where there is none.  That is 0.12 s and
19 MB in each process (`docs/decisions/0018-copies-of-the-launcher.md`), for what most models never use; those that do,
by `tf.keras` or `import keras`, import it then.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from types import ModuleType

_KERAS = "keras"
_REST = "keras.src"
"""What Keras consists of.  The package itself must be found: TensorFlow makes a part of its own search path of it."""


def import_tensorflow(verbose: bool) -> None:
    """TensorFlow's C++ part writes to file descriptor 2 before its log level counts; that is kept unless it fails."""
    with _without_keras(), contextlib.nullcontext() if verbose else _captured_stderr():
        import tensorflow  # noqa: F401


class _BlockedModule(importlib.abc.MetaPathFinder):
    """Finds that there is no such module."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == _REST:
            raise ModuleNotFoundError(f"{fullname} is not imported now", name=fullname)


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    """Unless somebody has imported it already."""
    if _KERAS in sys.modules:
        yield
        return
    nowhere = _BlockedModule()
    sys.meta_path.insert(0, nowhere)
    try:
        yield
    finally:
        sys.meta_path.remove(nowhere)
        for name in [name for name in sys.modules if name.partition(".")[0] == _KERAS]:
            del sys.modules[name]  # what was imported of it before it failed


@contextlib.contextmanager
def _captured_stderr() -> Iterator[None]:
    """What is written to file descriptor 2 is seen only if there is an error."""
    with tempfile.TemporaryFile() as kept:
        stderr = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(stderr, kept.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
