"""Checks that the specs share: functions, hooks and listeners.

hooks = checked_hooks([v1.train.StopAtStepHook(100)], "TrainSpec.hooks")     # a tuple
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as v1


def check_input_fn(input_fn: Any, where: str) -> None:
    """Raises TypeError if an input_fn cannot be called."""
    if not callable(input_fn):
        raise TypeError(f"{where}.input_fn={input_fn!r} cannot be called: use a function that returns the data.")


def check_count(value: float | None, where: str, meaning_of_none: str) -> None:
    """Raises ValueError if a number of steps is given but not positive."""
    if value is not None and value <= 0:
        raise ValueError(f"{where}={value} is not valid: use a number above 0, or None {meaning_of_none}.")


def checked_hooks(hooks: Iterable[Any] | None, where: str) -> tuple[v1.train.SessionRunHook, ...]:
    """Returns hooks as a tuple; raises TypeError for anything that is not a SessionRunHook."""
    return _all_of(hooks, v1.train.SessionRunHook, where, "tf.compat.v1.train.SessionRunHook")


def checked_listeners(listeners: Iterable[Any] | None, where: str) -> tuple[v1.train.CheckpointSaverListener, ...]:
    """Returns listeners as a tuple; raises TypeError for anything that is not a CheckpointSaverListener."""
    return _all_of(listeners, v1.train.CheckpointSaverListener, where, "tf.compat.v1.train.CheckpointSaverListener")


def _all_of(values: Iterable[Any] | None, kind: type, where: str, allowed: str) -> tuple[Any, ...]:
    found = tuple(values or ())
    for value in found:
        if not isinstance(value, kind):
            raise TypeError(f"{where} has {value!r} of type {type(value).__name__}: use objects of {allowed}.")
    return found


def check_steps(config: Any, steps: int | None, max_steps: int | None) -> None:
    """Raises ValueError if a task does not train, or for wrong numbers of steps."""
    if config.task_type in ("ps", "evaluator"):
        raise ValueError(
            f"this task is a {config.task_type} (from TF_CONFIG) and does not train: use train_and_evaluate."
        )
    if steps is not None and max_steps is not None:
        raise ValueError(f"steps={steps} and max_steps={max_steps} are both given: use one of them.")
    for count, name in ((steps, "steps"), (max_steps, "max_steps")):
        check_count(count, name, "to train to the end of the input")
