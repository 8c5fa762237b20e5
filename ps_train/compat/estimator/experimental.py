"""Names of `tf.estimator.experimental`: hooks that end the training early, and functions of canned models."""

from __future__ import annotations

from typing import Any

from ps_train.compat.estimator.canned import missing_for as _missing_for
from ps_train.compat.estimator.canned import package_module as _package_module
from ps_train.compat.estimator.canned import refusal_of as _refusal_of
from ps_train.compat.estimator.early_stopping import (
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from ps_train.observe.progress.eval_events import read_eval_metrics

__all__ = [
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "read_eval_metrics",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]

_OF_THE_PACKAGE = {
    "call_logit_fn": "model_fn",
    "dnn_logit_fn_builder": "canned.dnn",
    "linear_logit_fn_builder": "canned.linear",
}


def __getattr__(name: str) -> Any:
    whole = f"ps_train.estimator.experimental.{name}"
    if name not in _OF_THE_PACKAGE:
        reason = f"{whole} is not there: use another name of its __all__, or write it in the model_fn"
        raise AttributeError(_refusal_of(name) or reason)
    if missing := _missing_for(whole):
        raise AttributeError(missing)
    return getattr(_package_module(_OF_THE_PACKAGE[name]), name)
