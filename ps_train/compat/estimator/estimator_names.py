"""Names of `tf.estimator`: those of this package, hooks of TensorFlow, and canned models where they are installed."""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow.compat.v1 as _v1

from ps_train.compat.estimator.canned import canned as _canned
from ps_train.compat.estimator.canned import refusal_of
from ps_train.compat.estimator.early_stopping import add_metrics
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.best_exporter import BestExporter
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec, ModeKeys
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.exporter import Exporter, FinalExporter, LatestExporter
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.compat.estimator.spec.train_spec import TrainSpec
from ps_train.compat.estimator.spec.warm_start import VocabInfo, WarmStartSettings
from ps_train.compat.estimator.train_and_evaluate import train_and_evaluate
from ps_train.compat.train.stop_at_step import StopAtStepHook

CheckpointSaverHook = _v1.train.CheckpointSaverHook
CheckpointSaverListener = _v1.train.CheckpointSaverListener
FeedFnHook = _v1.train.FeedFnHook
FinalOpsHook = _v1.train.FinalOpsHook
GlobalStepWaiterHook = _v1.train.GlobalStepWaiterHook
LoggingTensorHook = _v1.train.LoggingTensorHook
NanLossDuringTrainingError = _v1.train.NanLossDuringTrainingError
NanTensorHook = _v1.train.NanTensorHook
ProfilerHook = _v1.train.ProfilerHook
SecondOrStepTimer = _v1.train.SecondOrStepTimer
SessionRunArgs = _v1.train.SessionRunArgs
SessionRunContext = _v1.train.SessionRunContext
SessionRunHook = _v1.train.SessionRunHook
SessionRunValues = _v1.train.SessionRunValues
StepCounterHook = _v1.train.StepCounterHook
SummarySaverHook = _v1.train.SummarySaverHook

__all__ = [
    "BestExporter",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FeedFnHook",
    "FinalExporter",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LatestExporter",
    "LoggingTensorHook",
    "ModeKeys",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "RunConfig",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TrainSpec",
    "VocabInfo",
    "WarmStartSettings",
    "add_metrics",
    "train_and_evaluate",
]


def __getattr__(name: str) -> Any:
    if name == "tpu":  # few programs use it, and it needs the Estimator first
        return importlib.import_module("ps_train.estimator.tpu")
    found = _canned(name)
    if found is None:
        reason = f"ps_train.estimator has no {name}: use another name of its __all__, or write a model_fn"
        raise AttributeError(refusal_of(name) or reason)
    return found
