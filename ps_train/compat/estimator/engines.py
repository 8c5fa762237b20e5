"""The engines that train an Estimator: ps_train's own, and TensorFlow's.

A program without a cluster has no ps, and nothing to gain from the first one: it trains in one plain session, unless
its RunConfig has `engine="ps_train"`.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, NoReturn

import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.base.private_tf import stop_settings
from ps_train.compat.capture import captured_training as capture
from ps_train.compat.capture.estimator_program import CaptureError, Program
from ps_train.compat.capture.job_of_config import has_ps, trains_in_cluster
from ps_train.compat.capture.uncaptured_training import train_as_script
from ps_train.compat.train.process_end import end_process_after
from ps_train.compat.train.stop_at_step import StopAtStepHook
from ps_train.config.job import Job
from ps_train.engine.checkpoint.files import saved_step

log = logging.getLogger(__name__)

_OF_OWN_ENGINE = ("track", "local_steps", "outer_optimizer")
"""Flags of a RunConfig's job that have no effect elsewhere, where others only make a job faster or steadier."""


def train(run: Program) -> int:
    """Trains with the engine that the configuration asks for; returns the global step at the end.

    Raises:
      CaptureError: engine="ps_train", and the program does what that engine cannot do.
    """
    config, run = run.config, _with_exact_end(run)
    if run.max_steps is not None and run.max_steps <= (start := saved_step(run.model_dir)):
        skip(config)
        return start
    if config.engine == "tensorflow" or (config.engine == "auto" and not trains_in_cluster(config)):
        return _train_as_script(run)
    try:
        return capture.train(run)
    except CaptureError as reason:
        if config.engine == "ps_train":
            raise
        if not has_ps(config):
            raise ConfigError(f"a cluster without ps is not possible, because {reason}; use one with ps.") from None
        log.warning("this program trains with TensorFlow's own means, variable by variable, because %s", reason)
        return _train_as_script(run)


def _train_as_script(run: Program) -> int:
    given, defaults = getattr(run.config, "job", None) or {}, Job()
    for name in _OF_OWN_ENGINE:
        value, default = given.get(name), getattr(defaults, name)
        if value is not None and str(value) != str(default) and run.config.is_chief:
            log.warning(
                "%s=%s (from the RunConfig) has no effect: it is for ps_train's own engine, which trains programs with "
                'a cluster, and those with engine="ps_train"',
                *(name, value),
            )
    return train_as_script(run)


def _with_exact_end(run: Program) -> Program:
    """Returns the program with max_steps in the place of hooks that stop at a step: each would look for itself."""
    stops = [stop_settings(hook) for hook in run.hooks if type(hook) in (v1.train.StopAtStepHook, StopAtStepHook)]
    if not stops:
        return run
    start = saved_step(run.model_dir)
    ends = [stop.last_step if stop.last_step is not None else start + (stop.num_steps or 0) for stop in stops]
    hooks = [hook for hook in run.hooks if type(hook) not in (v1.train.StopAtStepHook, StopAtStepHook)]
    return dataclasses.replace(run, hooks=hooks, max_steps=min([*ends, *filter(None, [run.max_steps])]))


def skip(config: Any) -> None:
    """Ends the job of a cluster in which there is nothing to train: the chief tells every ps of its own process."""
    if config.is_chief and trains_in_cluster(config) and has_ps(config):
        capture.tell_end(config)


def serve(config: Any) -> NoReturn:
    """Serves as a ps until the job is over, and then ends the process; see `process_end.py`."""
    end_process_after(lambda: capture.serve(config))
