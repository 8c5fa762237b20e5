"""Models and weights saved under a path without a suffix, as Keras 2 wrote them.

    model.save("models/mnist")                                                  # models/mnist/model.keras
    keras.models.load_model("models/mnist")
    keras.callbacks.ModelCheckpoint("ckpt/{epoch}")                             # ckpt/1.keras
    keras.callbacks.ModelCheckpoint("ckpt/{epoch}", save_weights_only=True)     # ckpt/1.weights.h5
    model.load_weights(tf.train.latest_checkpoint("ckpt"))

Keras 2 wrote a SavedModel there, which Keras 3 can write (`model.export`) but not load as a model.  A line says once
what is written.
"""

from __future__ import annotations

import functools
import glob
import logging
import os
from typing import Any

import keras
import tensorflow as tf

from ps_train.compat.distribute.replaced import Replaced

log = logging.getLogger(__name__)

_FILE = "model.keras"
_MODEL, _WEIGHTS, _H5 = ".keras", ".weights.h5", (".h5", ".hdf5")


def install(replaced: Replaced) -> None:
    """Lets Keras save to, and load from, paths without a suffix.

    Args:
      replaced: gets the replaced attributes.
    """
    _save(replaced)
    _load(replaced)
    _weights(replaced)
    _checkpoints(replaced)


def _is_complete(path: str) -> bool:
    return path.endswith((_MODEL, *_H5)) or "://" in path


def _save(replaced: Replaced) -> None:
    own_save: Any = keras.models.save_model

    @functools.wraps(own_save)
    def save_model(model: Any, filepath: Any, overwrite: bool = True, **options: Any) -> Any:
        form, path = options.pop("save_format", None), os.fspath(filepath)
        options.pop("signatures", None), options.pop("options", None)  # of a SavedModel
        if not _is_complete(path) and options.get("zipped", True):
            path = f"{path}.h5" if form == "h5" else _in_directory(path)
        return own_save(model, path, overwrite=overwrite, **options)

    def save(self: Any, filepath: Any, overwrite: bool = True, **options: Any) -> Any:
        return save_model(self, filepath, overwrite, **options)

    replaced.keras_name("models.save_model", save_model)
    replaced.attribute(keras.Model, "save", functools.wraps(keras.Model.save)(save))


def _in_directory(path: str) -> str:
    _tell("models", f"{os.path.join(path, _FILE)}, which load_model({path!r}) reads; model.export writes a SavedModel")
    os.makedirs(path, exist_ok=True)
    return os.path.join(path, _FILE)


def _load(replaced: Replaced) -> None:
    own_load: Any = keras.models.load_model

    @functools.wraps(own_load)
    def load_model(filepath: Any, *args: Any, **options: Any) -> Any:
        path = os.fspath(filepath)
        names = (path, os.path.join(path, _FILE), path + _MODEL)
        found = path if _is_complete(path) else next((name for name in names if os.path.isfile(name)), path)
        return own_load(found, *args, **options)

    replaced.keras_name("models.load_model", load_model)


def _weights(replaced: Replaced) -> None:
    own_save: Any = keras.Model.save_weights
    own_load: Any = keras.Model.load_weights

    @functools.wraps(own_save)
    def save_weights(self: Any, filepath: Any, overwrite: bool = True, **options: Any) -> Any:
        options.pop("save_format", None), options.pop("options", None)
        return own_save(self, _weights_path(os.fspath(filepath)), overwrite=overwrite, **options)

    @functools.wraps(own_load)
    def load_weights(self: Any, filepath: Any, *args: Any, **options: Any) -> Any:
        path = os.fspath(filepath)
        return own_load(self, path if os.path.isfile(path) else _weights_path(path), *args, **options)

    replaced.attribute(keras.Model, "save_weights", save_weights)
    replaced.attribute(keras.Model, "load_weights", load_weights)


def _weights_path(path: str) -> str:
    if path.endswith((_WEIGHTS, _MODEL, ".json")):
        return path
    if path.endswith(_H5):  # Keras 3 wants more of a suffix
        return os.path.splitext(path)[0] + _WEIGHTS
    _tell("weights", f"{path}{_WEIGHTS}")
    return path + _WEIGHTS


def _checkpoints(replaced: Replaced) -> None:
    own_init: Any = keras.callbacks.ModelCheckpoint.__init__
    own_latest: Any = tf.train.latest_checkpoint

    @functools.wraps(own_init)
    def init(self: Any, filepath: Any, *args: Any, **options: Any) -> None:
        path = os.fspath(filepath)
        options.pop("options", None), options.pop("load_weights_on_restart", None)
        if options.pop("period", 1) != 1:
            raise ValueError(f"ModelCheckpoint({path!r}, period=...) is not in Keras 3: write save_freq.")
        only_weights = args[3] if len(args) > 3 else options.get("save_weights_only", False)
        if only_weights:
            path = _weights_path(path)
        elif not _is_complete(path):
            path += _MODEL
            _tell("models", path)
        own_init(self, path, *args, **options)

    @functools.wraps(own_latest)
    def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> Any:
        found = own_latest(checkpoint_dir, latest_filename)
        if found is not None or latest_filename is not None:
            return found
        weights = glob.glob(os.path.join(glob.escape(os.fspath(checkpoint_dir)), f"*{_WEIGHTS}"))
        return max(weights, key=os.path.getmtime, default=None)

    replaced.attribute(keras.callbacks.ModelCheckpoint, "__init__", init)
    for module in (tf.train, tf.compat.v2.train):
        replaced.attribute(module, "latest_checkpoint", latest_checkpoint)


@functools.cache
def _tell(what: str, where: str) -> None:
    log.warning("Keras 3 saves %s in files with a suffix: this program's go to %s", what, where)
