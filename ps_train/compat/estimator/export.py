"""Receivers of requests, for exports: the tensors that a request feeds, and the features that come from them.

Use:

    receiver_fn = build_parsing_serving_input_receiver_fn(tf.feature_column.make_parse_example_spec(columns))
    estimator.export_saved_model("/models/run1/export", receiver_fn)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.spec.export_outputs import (
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)

__all__ = [
    "ClassificationOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
    "ServingInputReceiver",
    "TensorServingInputReceiver",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
]


class _Receiver(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any


class ServingInputReceiver(_Receiver):
    """A request's tensors, and a dict of features.

    Args:
      features: name to tensor, SparseTensor or RaggedTensor; a single tensor gets the name "feature".
      receiver_tensors: name to the tensor that a request feeds; a single tensor gets the name "input".
      receiver_tensors_alternatives: name to further groups of such tensors, each with signatures of its own.

    Raises:
      ValueError: something is missing, has no name or is not a tensor.
    """

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        """Checks the tensors and names them."""
        return super().__new__(
            cls,
            _named(features, "feature", (str, int)),
            _named(receiver_tensors, "input", (str,)),
            _named_groups(receiver_tensors_alternatives),
        )


class TensorServingInputReceiver(_Receiver):
    """A request's tensors, and a single tensor of features for a model_fn that takes no dict.

    Args:
      features: the tensor, SparseTensor or RaggedTensor.
      receiver_tensors, receiver_tensors_alternatives: as in ServingInputReceiver.

    Raises:
      ValueError: something is missing, has no name or is not a tensor.
    """

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> TensorServingInputReceiver:
        """Checks the tensors and names them."""
        _check_tensor(features, "feature")
        return super().__new__(
            cls, features, _named(receiver_tensors, "input", (str,)), _named_groups(receiver_tensors_alternatives)
        )


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a function for requests of serialized `tf.train.Example`s, in a tensor named "examples".

    Args:
      feature_spec: feature name to FixedLenFeature, VarLenFeature, and so on.
      default_batch_size: number of examples in a request; None: any.
    """

    def receive() -> ServingInputReceiver:
        examples = v1.placeholder(tf.string, [default_batch_size], "input_example_tensor")
        return ServingInputReceiver(v1.io.parse_example(examples, feature_spec), {"examples": examples})

    return receive


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a function for requests of the features themselves.

    Args:
      features: feature name to a tensor of the same dtype and shape; the first dimension is the batch.  A
        FixedLenFeature or VarLenFeature of one example will do as well.
      default_batch_size: number of examples in a request; None: any.
    """

    def receive() -> ServingInputReceiver:
        fed = {name: _placeholder(feature, default_batch_size, name) for name, feature in features.items()}
        return ServingInputReceiver(fed, fed)

    return receive


def _placeholder(feature: Any, batch_size: int | None, name: str) -> Any:
    if isinstance(feature, tf.io.VarLenFeature):
        return v1.sparse_placeholder(feature.dtype, [batch_size, None])
    if isinstance(feature, tf.io.FixedLenFeature):
        return v1.placeholder(feature.dtype, [batch_size, *feature.shape])
    _check_tensor(feature, name)
    shape = tf.TensorShape([batch_size]).concatenate(feature.shape[1:])
    is_symbolic = not hasattr(feature, "numpy")  # tensors of eager mode have no name
    return v1.placeholder(feature.dtype, shape, feature.op.name if is_symbolic else None)


def _named(tensors: Any, name: str, kinds: tuple[type, ...]) -> dict[Any, Any]:
    named = tensors if isinstance(tensors, dict) else {name: tensors}
    for key, tensor in named.items():
        if not isinstance(key, kinds):
            raise ValueError(f"the name {key!r} of an {name} must be a text, not {type(key).__name__}.")
        _check_tensor(tensor, key)
    return named


def _named_groups(groups: Any) -> dict[str, dict[str, Any]] | None:
    if groups is None:
        return None
    if not isinstance(groups, dict):
        raise ValueError(f"receiver_tensors_alternatives must be a dict of name to tensors, not {groups!r}.")
    return {name: _named(tensors, "input", (str,)) for name, tensors in groups.items()}


def _check_tensor(tensor: Any, name: Any) -> None:
    if not isinstance(tensor, tf.Tensor | tf.SparseTensor | tf.RaggedTensor):
        raise ValueError(f"{name} must be a Tensor, SparseTensor or RaggedTensor, not {tensor!r}.")
