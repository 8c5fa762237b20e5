"""Classes of TensorFlow 1 that tf-keras has kept: layers and cells of recurrent networks.

    name("rnn_cell", "GRUCell")         # the class tf.nn.rnn_cell.GRUCell

TensorFlow itself hands them on only to a process that was started with TF_USE_LEGACY_KERAS=1.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

_PACKAGE = "tf_keras"
_HOME = f"{_PACKAGE}.api._v1.keras.__internal__.legacy"


class NotInstalledError(AttributeError):
    """A name is not there because a package is not installed."""


def is_installed() -> bool:
    """Returns True if tf-keras is there."""
    return importlib.util.find_spec(_PACKAGE) is not None


def name(module: str, name: str) -> Any:
    """Returns a class or function.

    Args:
      module: `layers` or `rnn_cell`.
      name: in the module.

    Raises:
      NotInstalledError: tf-keras is not installed.
      AttributeError: the module has no such name.
    """
    if not is_installed():
        whole = f"tf.{'nn.' if module == 'rnn_cell' else ''}{module}.{name}"
        raise NotInstalledError(f"{whole} comes with tf-keras, which is not installed: pip install tf-keras.")
    warnings.filterwarnings("ignore", r"`tf\.(layers|nn\.rnn_cell)\.")  # they advise to use Keras
    return getattr(importlib.import_module(f"{_HOME}.{module}"), name)
