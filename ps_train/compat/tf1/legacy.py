"""Parts of TensorFlow 1 that other packages have kept: tf-keras the layers and cells, tf-slim `tf.contrib.slim`.

    name("rnn_cell", "GRUCell")         # the class tf.nn.rnn_cell.GRUCell
    slim("layer_norm", "layers")        # the function tf.contrib.layers.layer_norm

TensorFlow itself hands the names of tf-keras on only to a process that was started with TF_USE_LEGACY_KERAS=1.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import warnings
from typing import Any

from ps_train.base.extras import install
from ps_train.base.private_tf import give_back_tensor
from ps_train.compat.tf1.lazy_module import NameSource

_KERAS = "tf_keras"
_HOME = f"{_KERAS}.api._v1.keras.__internal__.legacy"
_SLIM = "tf_slim"
INSTALL = install("compat")
"""Advice: this extra names both packages."""


class NotInstalledError(AttributeError):
    """A name is not there because a package is not installed."""


def is_installed() -> bool:
    """Returns True if tf-keras is there."""
    return importlib.util.find_spec(_KERAS) is not None


def name(module: str, name: str) -> Any:
    """Returns a class or function of tf-keras.

    Args:
      module: `layers` or `rnn_cell`.
      name: in the module.

    Raises:
      NotInstalledError: tf-keras is not installed.
      AttributeError: the module has no such name.
    """
    if not is_installed():
        whole = f"tf.{'nn.' if module == 'rnn_cell' else ''}{module}.{name}"
        raise NotInstalledError(f"{whole} comes with tf-keras, which is not installed: {INSTALL}.")
    _prepare()
    return getattr(importlib.import_module(f"{_HOME}.{module}"), name)


def keras_names(module: str) -> NameSource:
    """Returns the names of a module of tf-keras, which may be missing; the errors are those of `name`."""
    return NameSource(
        functools.partial(name, module),
        lambda: dir(importlib.import_module(f"{_HOME}.{module}")) if is_installed() else [],
    )


def _prepare() -> None:
    """Prepares tf-keras for a program of TensorFlow 1."""
    _take_texts_as_sizes()
    warnings.filterwarnings("ignore", r"`tf\.(layers|nn\.rnn_cell)\.")  # they advise to use Keras


@functools.cache
def _take_texts_as_sizes() -> None:
    """Lets sizes of convolutions and poolings be texts of numbers, such as flags, and whole floats."""
    convolution = importlib.import_module(f"{_KERAS}.src.layers.convolutional.base_conv").Conv
    sizes: Any = importlib.import_module(f"{_KERAS}.src.utils.conv_utils")
    really, really_tuple = convolution.__init__, sizes.normalize_tuple

    @functools.wraps(really)
    def init(layer: Any, rank: int, filters: Any, *arguments: Any, **options: Any) -> None:
        filters = as_size(filters, "filters") if isinstance(filters, str) else filters
        really(layer, rank, filters, *arguments, **options)

    @functools.wraps(really_tuple)
    def normalize_tuple(value: Any, n: int, name: str, *arguments: Any, **options: Any) -> Any:
        each = value if isinstance(value, list | tuple) else [value] * n
        return really_tuple([as_size(size, name) for size in each], n, name, *arguments, **options)

    convolution.__init__, sizes.normalize_tuple = init, normalize_tuple


def as_size(value: Any, name: str) -> int:
    """Returns a size as an integer, as TensorFlow 1 does: "64" of a flag or a file is 64.

    Args:
      value: a number, or the text of one.
      name: of the argument, for the error: `kernel_size`.

    Raises:
      ValueError: the value is neither.
    """
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {value!r} is not a whole number") from None


def slim(name: str = "", part: str = "") -> Any:
    """Returns a name of tf-slim, or the package itself.

    Args:
      name: the name; "" for the module.
      part: a module of tf-slim, `layers`; "" for the package.

    Raises:
      NotInstalledError: tf-slim is there without tf-keras.
      AttributeError: tf-slim is not installed, or has no such name.
    """
    if importlib.util.find_spec(_SLIM) is None:
        raise AttributeError(f"{_SLIM} is not installed")
    if not is_installed():
        raise NotInstalledError(f"tf-slim needs tf-keras, which is not installed: {INSTALL}.")
    give_back_tensor()
    _prepare()
    # TensorFlow looks for the layer of batch normalization where tf-keras had it once.
    for module in ("", ".normalization"):
        found = importlib.import_module(f"{_KERAS}.src.legacy_tf_layers{module}")
        sys.modules.setdefault(f"{_KERAS}.legacy_tf_layers{module}", found)
    importlib.import_module(_SLIM)
    home = importlib.import_module(f"{_SLIM}.{part}" if part else _SLIM)
    if not name or hasattr(home, name):
        return getattr(home, name) if name else home
    try:
        return importlib.import_module(f"{home.__name__}.{name}")  # such as a network
    except ModuleNotFoundError:
        raise AttributeError(name) from None


def slim_names(part: str = "") -> NameSource:
    """Returns the names of a module of tf-slim, which may be missing; the errors are those of `slim`."""
    return NameSource(lambda name: slim(name, part), lambda: dir(slim(part=part)) if has_slim() else [])


def has_slim() -> bool:
    """Returns True if tf-slim and tf-keras are there."""
    return importlib.util.find_spec(_SLIM) is not None and is_installed()
