"""Modes in which a model_fn is called."""

from __future__ import annotations


class ModeKeys:
    """Names of the modes: training, evaluation and prediction."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"
