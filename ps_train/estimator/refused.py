"""Names of `tf.estimator` that are not offered, each with the reason."""

from __future__ import annotations

_TPU = "ps_train does not train on TPUs: use Estimator and RunConfig"
_REASONS = {
    "model_to_estimator": "a Keras model does not become an Estimator: build the layers in a model_fn, or describe the "
    "model as ps_train.Model",
    "tpu": _TPU,
    "TPUEstimator": _TPU,
    "TPUEstimatorSpec": _TPU,
}


def refusal_of(name: str) -> str:
    """Returns the reason why a name of `tf.estimator` is not there, or "" for a name that it does not have."""
    return f"{name} is not there, since {_REASONS[name]}." if name in _REASONS else ""
