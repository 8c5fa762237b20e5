"""`ClusterCoordinator` in a program of one process: what it schedules runs at once, in this process.

    coordinator = ClusterCoordinator(strategy)
    batches = iter(coordinator.create_per_worker_dataset(make_dataset))
    loss = coordinator.schedule(step, args=(batches,))
    coordinator.join()
    loss.fetch()

A coordinator of several workers sends them functions, one call at a time.  ps_train's workers run whole steps of a
graph instead, so that is refused.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.compat.distribute.strategy import ParameterServerStrategy

log = logging.getLogger(__name__)


class RemoteValue:
    """The result of a scheduled function.

    Args:
      value: the result.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def fetch(self) -> Any:
        """Returns the result, tensors as NumPy's arrays."""
        return tf.nest.map_structure(lambda each: each.numpy() if tf.is_tensor(each) else each, self._value)

    def get(self) -> Any:
        """Returns the result."""
        return self._value


class ClusterCoordinator:
    """A coordinator whose only worker is this process.

    Args:
      strategy: of the scope in which the program makes its variables.

    Raises:
      ConfigError: the program is one of several tasks.
    """

    def __init__(self, strategy: ParameterServerStrategy) -> None:
        if os.environ.get("TF_CONFIG", "").strip():
            raise ConfigError(
                "ClusterCoordinator.schedule sends functions to the workers of TF_CONFIG, and ps_train has no such "
                "workers: put the step into the model's train_step and call model.fit, or run the program as one "
                "process, without --num_ps and --num_workers."
            )
        if isinstance(strategy, ParameterServerStrategy) and strategy.num_workers > 1:
            log.warning("ClusterCoordinator runs what it schedules in this process, one call after another")
            strategy.run_alone()
        self.strategy = strategy

    def schedule(self, fn: Any, args: Any = None, kwargs: Any = None) -> RemoteValue:
        """Calls a function; returns its result."""
        with self.strategy.scope():
            return RemoteValue(fn(*(args or ()), **(kwargs or {})))

    def create_per_worker_dataset(self, dataset_fn: Any) -> Any:
        """Returns the dataset of this process.

        Args:
          dataset_fn: a function without arguments that returns a dataset, or a dataset.
        """
        return dataset_fn() if callable(dataset_fn) else dataset_fn

    def create_per_worker_resource(self, resource_fn: Any) -> Any:
        """Returns what a function makes."""
        return resource_fn()

    def join(self) -> None:
        """Returns at once: everything that was scheduled is done."""

    def done(self) -> bool:
        """Returns True."""
        return True

    def fetch(self, val: Any) -> Any:
        """Returns values in the place of results."""
        return tf.nest.map_structure(lambda each: each.fetch() if isinstance(each, RemoteValue) else each, val)
