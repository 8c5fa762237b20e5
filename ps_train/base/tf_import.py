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
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from types import ModuleType

from ps_train.base.errors import PsTrainError
from ps_train.base.private_tf import KERAS_CODE

LOG_LEVEL_VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
"""Environment variable with the level of TensorFlow's C++ log, which is read at its import."""

QUIET = "3"
"""The level without errors: TensorFlow logs a missing GPU as one."""

_KERAS = "keras"


def import_tensorflow(verbose: bool) -> None:
    """Imports TensorFlow.

    Its C++ part writes to file descriptor 2 before its log level applies.  That text is shown only if the import fails.
    Later lines of the C++ part, such as those about a missing GPU, are left out unless TF_CPP_MIN_LOG_LEVEL is set.

    Args:
      verbose: shows the text and the later lines in any case.
    """
    if not verbose:
        os.environ.setdefault(LOG_LEVEL_VARIABLE, QUIET)
    with _without_keras(), contextlib.nullcontext() if verbose else _captured_stderr():
        import tensorflow  # noqa: F401


def import_quietly() -> None:
    """Imports TensorFlow for a command in which only ps_train uses it: its Python log has errors only, too."""
    import_tensorflow(verbose=False)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


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
