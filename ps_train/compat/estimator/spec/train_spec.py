"""Settings of the training in `train_and_evaluate`.

TrainSpec(input_fn, max_steps=1000)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.estimator_spec import check_count, check_input_fn, checked_hooks, checked_listeners


class _Fields(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[v1.train.SessionRunHook, ...]
    saving_listeners: tuple[v1.train.CheckpointSaverListener, ...]


class TrainSpec(_Fields):
    """Data, end and hooks of the training.

    Args:
      input_fn: returns the training data: a Dataset, or tensors; see `Estimator.train`.
      max_steps: the global step at which the training ends; None: it ends with the data, or never.
      hooks: run by every worker in training.
      saving_listeners: told of every checkpoint, by the chief.

    Raises:
      TypeError: input_fn cannot be called, or a hook or listener has another type.
      ValueError: max_steps is not positive.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Iterable[v1.train.SessionRunHook] | None = None,
        saving_listeners: Iterable[v1.train.CheckpointSaverListener] | None = None,
    ) -> TrainSpec:
        """Returns the spec, checked."""
        check_input_fn(input_fn, "TrainSpec")
        check_count(max_steps, "TrainSpec.max_steps", "for no limit")
        found = checked_hooks(hooks, "TrainSpec.hooks")
        listeners = checked_listeners(saving_listeners, "TrainSpec.saving_listeners")
        return super().__new__(cls, input_fn, max_steps, found, listeners)
