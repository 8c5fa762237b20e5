"""What the engine needs of an Estimator program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol


class Program(Protocol):
    """A program that trains.  `estimator/training_run.py` has the class.

    Attributes:
      model_fn: makes the specification of the model from features, labels and mode; see `Spec`.
      input_fn: makes the input in the current graph: a dataset of batches, or their tensors.
      config: the RunConfig.
      model_dir: the model directory.
      max_steps: the last global step; None for no limit.
      hooks: session hooks of every worker.
      saving_listeners: listeners of the chief's checkpoints.
      warm_start: where initial values come from; None for the initializers.
    """

    @property
    def model_fn(self) -> Callable[..., Any]: ...
    @property
    def input_fn(self) -> Callable[[], Any]: ...
    @property
    def config(self) -> Any: ...
    @property
    def model_dir(self) -> str: ...
    @property
    def max_steps(self) -> int | None: ...
    @property
    def hooks(self) -> Sequence[Any]: ...
    @property
    def saving_listeners(self) -> Sequence[Any]: ...
    @property
    def warm_start(self) -> Any: ...


class SyncReplicas(NamedTuple):
    """The settings of a SyncReplicasOptimizer.

    Attributes:
      to_aggregate: number of replicas whose gradients make an update.
      total: number of replicas.
    """

    to_aggregate: int
    total: int


TRAIN = "train"
"""The mode of a model_fn that trains, as in `ModeKeys.TRAIN`."""
