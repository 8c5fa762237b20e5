"""Settings of a warm start: initial values of a new model that are read from a checkpoint of another.

Use:

    Estimator(model_fn, "/models/new", warm_start_from="/models/old")
    Estimator(model_fn, "/models/new", warm_start_from=WarmStartSettings("/models/old", vars_to_warm_start="deep/.*"))
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.io import gfile

log = logging.getLogger(__name__)

VocabInfo = v1.train.VocabInfo
"""The vocabularies of an embedding: that of the new model, and that of the checkpoint."""


class _Settings(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: Mapping[str, Any]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_Settings):
    """The source of a warm start, and the variables that get their values from it.

    Args:
      ckpt_to_initialize_from: a checkpoint, or a directory whose newest checkpoint is used.
      vars_to_warm_start: a regular expression for trainable variables; a list of regular expressions for all
        variables; a list of variables; None for those of `var_name_to_vocab_info` only.
      var_name_to_vocab_info: variable name to VocabInfo, for embeddings whose vocabulary has changed.
      var_name_to_prev_var_name: variable name to its name in the checkpoint, where the names differ.

    Raises:
      ValueError: no checkpoint is given.
    """

    def __new__(
        cls,
        ckpt_to_initialize_from: str,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Mapping[str, Any] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> WarmStartSettings:
        """Makes the settings; None becomes an empty map."""
        if not ckpt_to_initialize_from:
            raise ValueError("WarmStartSettings needs ckpt_to_initialize_from: give a checkpoint or its directory.")
        names = var_name_to_vocab_info or {}, var_name_to_prev_var_name or {}
        return super().__new__(cls, ckpt_to_initialize_from, vars_to_warm_start, *names)


def warm_start_settings(source: Any) -> WarmStartSettings | None:
    """Returns the settings for an Estimator's argument `warm_start_from`.

    Args:
      source: settings; path of a checkpoint, of its directory or of a SavedModel; None.

    Raises:
      ValueError: the source is something else.
    """
    if source is None or isinstance(source, WarmStartSettings):
        return source
    if not isinstance(source, str | bytes | os.PathLike):
        raise ValueError(
            f"warm_start_from={source!r} must be a path or WarmStartSettings, not {type(source).__name__}: give the "
            "directory of a checkpoint."
        )
    path = tf.compat.as_str(os.fspath(source))
    variables = os.path.join(path, "variables", "variables")
    return WarmStartSettings(variables if gfile.exists(f"{variables}.index") else path)


def warm_start(settings: WarmStartSettings) -> None:
    """Makes the variables of the default graph start from the checkpoint; called after the model_fn."""
    log.info("warm start: %s", settings)
    v1.train.warm_start(*settings)
