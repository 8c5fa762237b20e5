"""The parts of an Estimator program that the engine needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as v1

from ps_train.base.errors import DivergedError, ModelError
from ps_train.base.unsaved_key import UnsavedKey


class CaptureError(ModelError):
    """The program does something that the engine cannot do in its place; the text is the reason."""

    page = "migrate#what-is-not-possible"


class NanLossError(DivergedError, v1.train.NanLossDuringTrainingError):
    """A loss or gradient is not finite: TensorFlow's error for it, with our text."""

    __str__ = Exception.__str__


TRAIN = "train"
"""The mode of a model_fn that trains, as in `ModeKeys.TRAIN`."""

ENGINE_ENDS_JOB = UnsavedKey("engine_ends_job")
"""Graph collection, not empty if a stop that a hook of the chief requests ends the whole job."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that trains.

    Attributes:
      model_fn: takes features, labels and mode, and returns the EstimatorSpec.
      input_fn: makes the input in the current graph: a dataset of batches, or the tensors of a batch.
      config: the RunConfig.
      model_dir: the model directory.
      max_steps: the last global step; None for no limit.
      hooks: session hooks of every worker.
      saving_listeners: listeners of the chief's checkpoints.
      warm_start: the WarmStartSettings; None for the variables' own initial values.
    """

    model_fn: Callable[..., Any]
    input_fn: Callable[[], Any]
    config: Any
    model_dir: str
    max_steps: int | None = None
    hooks: Sequence[Any] = ()
    saving_listeners: Sequence[Any] = ()
    warm_start: Any = None


def hooks_of(program: Program, spec: Any, is_chief: bool) -> list[v1.train.SessionRunHook]:
    """Returns the training hooks of a task, without those that do nothing, or save in the engine's place.

    Args:
      program: has hooks of its own.
      spec: the EstimatorSpec of its model_fn.
      is_chief: adds the chief's own.
    """
    nothing, saver = v1.train.SessionRunHook, v1.train.CheckpointSaverHook
    hooks = _all_hooks(program, spec, is_chief)
    return [hook for hook in hooks if type(hook) is not nothing and not isinstance(hook, saver)]


def saver_hooks_of(program: Program, spec: Any, is_chief: bool) -> list[v1.train.CheckpointSaverHook]:
    """Returns the hooks of a task that save checkpoints; the arguments are those of `hooks_of`."""
    return [hook for hook in _all_hooks(program, spec, is_chief) if isinstance(hook, v1.train.CheckpointSaverHook)]


def _all_hooks(program: Program, spec: Any, is_chief: bool) -> list[v1.train.SessionRunHook]:
    of_chief = (spec.training_chief_hooks or ()) if is_chief else ()
    return [*program.hooks, *(spec.training_hooks or ()), *of_chief]


class SyncReplicas(NamedTuple):
    """The settings of a SyncReplicasOptimizer.

    Attributes:
      to_aggregate: number of replicas whose gradients make an update.
      total: number of replicas.
    """

    to_aggregate: int
    total: int
