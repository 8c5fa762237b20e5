"""The configuration of an Estimator: its RunConfig with a directory and a session's settings."""

from __future__ import annotations

import logging
import os
import tempfile
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.specs.run_config import RunConfig

log = logging.getLogger(__name__)


def complete_config(config: Any, model_dir: Any) -> RunConfig:
    """Returns the configuration with a directory, which is a temporary one if none is given.

    Args:
      config: a RunConfig.
      model_dir: the directory that the Estimator is given; None: that of the RunConfig.

    Raises:
      ValueError: the config is something else, the directory is empty, or there are two different ones.
    """
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be a RunConfig, not {type(config).__name__}: use RunConfig(...).")
    given = None if model_dir is None else tf.compat.as_str(os.fspath(model_dir))
    if given == "":
        raise ValueError("model_dir is empty: give a directory, or None for a temporary one.")
    if given and config.model_dir and given != config.model_dir:
        raise ValueError(f"model_dir={given} is not that of the RunConfig, {config.model_dir}: give one of them.")
    changes: dict[str, Any] = {"model_dir": given or config.model_dir}
    if changes["model_dir"] is None:
        changes["model_dir"] = tempfile.mkdtemp()
        log.warning("no model_dir is given: the model is kept in %s", changes["model_dir"])
    if config.session_config is None:
        changes["session_config"] = v1.ConfigProto(allow_soft_placement=True)
        rewriting = changes["session_config"].graph_options.rewrite_options
        rewriting.meta_optimizer_iterations = rewriting.ONE
    return config.replace(**changes)
