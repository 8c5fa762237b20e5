"""The import of TensorFlow, without its messages and without Keras.

    import_tensorflow(verbose=False)

TensorFlow imports Keras last, and works without it where it is missing.  Most models never use it.  A model that uses
`tf.keras` or `import keras` imports it then.  Hiding it is worth its code only because start-up misses its target, 1.5
times a bare import and session: it takes 1.60 times that, and 1.71 times with Keras, which also costs 19 MB in each
process (`docs/decisions/0018-copies-of-the-launcher.md`).  Test: `test_tf_import.py`.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from types import ModuleType

from ps_train.base.errors import PsTrainError
from ps_train.base.private_tf import KERAS_CODE

_KERAS = "keras"


def import_tensorflow(verbose: bool) -> None:
    """Imports TensorFlow.

    Its C++ part writes to file descriptor 2 before its log level applies.  That text is shown only if the import fails.

    Args:
      verbose: shows the text in any case.
    """
    with _without_keras(), contextlib.nullcontext() if verbose else _captured_stderr():
        import tensorflow  # noqa: F401


class _BlockedModule(importlib.abc.MetaPathFinder):
    """A finder that raises ModuleNotFoundError for the code of Keras."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == KERAS_CODE:
            raise ModuleNotFoundError(f"{fullname} is not imported now", name=fullname)


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    """Blocks the import of Keras within the body, unless Keras is already imported."""
    if _KERAS in sys.modules:
        yield
        return
    blocked = _BlockedModule()
    sys.meta_path.insert(0, blocked)
    try:
        yield
    finally:
        sys.meta_path.remove(blocked)
        for name in [name for name in sys.modules if name.partition(".")[0] == _KERAS]:
            del sys.modules[name]  # the part imported before it failed


@contextlib.contextmanager
def _captured_stderr() -> Iterator[None]:
    """Captures file descriptor 2 within the body, and shows the text only on an error."""
    with tempfile.TemporaryFile() as captured:
        stderr = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            yield
        except PsTrainError:
            raise  # its line says all
        except BaseException:
            captured.seek(0)
            os.write(stderr, captured.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
