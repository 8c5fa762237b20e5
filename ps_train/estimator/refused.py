"""Names of `tf.estimator` that are not offered, each with the reason."""

from __future__ import annotations

from typing import Any, NoReturn

_TPU = ("tpu", "TPUEstimator", "TPUEstimatorSpec")


def refusal_of(name: str) -> str:
    """Returns the reason why a name of `tf.estimator` is not there, or "" for a name that it does not have."""
    if name in _TPU:
        return f"{name} is not there, since ps_train does not train on TPUs: use Estimator and RunConfig."
    return ""


def model_to_estimator(*arguments: Any, **named: Any) -> NoReturn:
    """Raises NotImplementedError: a Keras model does not become an Estimator.

    Args:
      *arguments: not used.
      **named: not used.
    """
    raise NotImplementedError(
        "model_to_estimator is not supported: build the layers in a model_fn, or describe the model as ps_train.Model."
    )
