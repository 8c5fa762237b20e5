"""Needs of callbacks: which values a Keras callback may look at, and in which hooks.

    needs_of(keras.callbacks.CSVLogger("log.csv"))      # Needs.LOGS
    needs_of(own_callback)                              # Needs.ALL: it may read and write anything
    hears_batches(own_callback)                         # True if it has a hook of a batch

Values come from the ps, which takes time for a large model: they are pulled where a callback may look at them.  A
callback of Keras itself is known by its class.  A subclass is the user's, and may do anything.
"""

from __future__ import annotations

import enum
from typing import Any

import keras

from ps_train.base.private_tf import batches_since_save


class Needs(enum.IntEnum):
    """The values that a callback may read; each includes those before it."""

    LOGS = 0
    WEIGHTS = 1
    ALL = 2
    """The optimizer's variables too; such a callback may also write."""


_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")

_LOGS_ONLY = frozenset(
    [
        keras.callbacks.CSVLogger,
        keras.callbacks.History,
        keras.callbacks.LearningRateScheduler,
        keras.callbacks.ProgbarLogger,
        keras.callbacks.ReduceLROnPlateau,
        keras.callbacks.RemoteMonitor,
        keras.callbacks.TerminateOnNaN,
    ]
)


def needs_of(callback: Any) -> Needs:
    """Returns the values that a callback may read at an epoch's begin and end."""
    kind = type(callback)
    if kind in _LOGS_ONLY:
        return Needs.LOGS
    if kind is keras.callbacks.EarlyStopping:  # it writes at the end of training only
        return Needs.WEIGHTS if callback.restore_best_weights else Needs.LOGS
    if kind is keras.callbacks.TensorBoard and not callback.embeddings_freq:
        return Needs.WEIGHTS if callback.histogram_freq else Needs.LOGS
    return Needs.ALL


def hears_batches(callback: Any) -> bool:
    """Returns True if a callback does something for each batch, at least reads its logs."""
    if type(callback) is keras.callbacks.ProgbarLogger:
        return callback.verbose == 1
    if getattr(callback, "save_freq", None) == "epoch" and _is_of_keras(callback):
        return False
    return any(_has_own(callback, hook) for hook in _BATCH_HOOKS)


def counts_batches(callback: Any) -> bool:
    """Returns True if a callback must hear of each batch; others of Keras only read the newest logs."""
    return hears_batches(callback) and type(callback) not in _LOGS_ONLY


def may_read_in_batches(callback: Any) -> bool:
    """Returns True if a callback of the user has hooks of a batch, in which it may read weights."""
    return hears_batches(callback) and not _is_of_keras(callback)


def saves_within(callback: Any, batches: int) -> bool:
    """Returns True if a callback that saves every `save_freq` batches saves in the hooks of the next batches."""
    every = getattr(callback, "save_freq", None)
    return isinstance(every, int) and bool(every) and batches_since_save(callback) + batches >= every


def _is_of_keras(callback: Any) -> bool:
    """Returns True for a callback of one of Keras's own classes, except one that calls the user's functions."""
    kind = type(callback)
    return kind is not keras.callbacks.LambdaCallback and getattr(keras.callbacks, kind.__name__, None) is kind


def _has_own(callback: Any, hook: str) -> bool:
    return hook in vars(callback) or getattr(type(callback), hook, None) is not getattr(keras.callbacks.Callback, hook)
