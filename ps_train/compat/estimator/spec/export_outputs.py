"""Outputs of a model that can be served: each becomes a signature of the exported SavedModel."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


class ExportOutput(abc.ABC):
    """An output that can be served."""

    @abc.abstractmethod
    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        """Returns the SignatureDef with these inputs.

        Args:
          receiver_tensors: name to tensor that a request feeds.

        Raises:
          ValueError: this kind of output can not be served with these inputs.
        """


class PredictOutput(ExportOutput):
    """Named tensors.

    Args:
      outputs: name to tensor, or one tensor, which is then named "output".  A name may be a tuple of texts, which are
        joined with "/".

    Raises:
      ValueError: a name is not a text, or a value is not a tensor.
    """

    def __init__(self, outputs: Any) -> None:
        named = outputs if isinstance(outputs, dict) else {"output": outputs}
        self._outputs = {_text_of(name): _checked(tensor, f"output {name}") for name, tensor in named.items()}

    @property
    def outputs(self) -> dict[str, tf.Tensor]:
        """Name to tensor."""
        return self._outputs

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        """Returns the signature of a prediction."""
        return v1.saved_model.predict_signature_def(dict(receiver_tensors), self._outputs)


class ClassificationOutput(ExportOutput):
    """Scores and names of classes; one of them may be None.

    Args:
      scores: float [batch, classes].
      classes: string [batch, classes].

    Raises:
      ValueError: both are None, or one has another dtype.
    """

    def __init__(self, scores: tf.Tensor | None = None, classes: tf.Tensor | None = None) -> None:
        if scores is None and classes is None:
            raise ValueError("ClassificationOutput has neither scores nor classes: give at least one of them.")
        if scores is not None and not _checked(scores, "scores").dtype.is_floating:
            raise ValueError(f"scores of ClassificationOutput must be floats, not {scores.dtype.name}: cast them.")
        if classes is not None and _checked(classes, "classes").dtype != tf.string:
            raise ValueError(
                f"classes of ClassificationOutput must be strings, not {classes.dtype.name}: use tf.as_string."
            )
        self._scores, self._classes = scores, classes

    @property
    def scores(self) -> tf.Tensor | None:
        """The scores."""
        return self._scores

    @property
    def classes(self) -> tf.Tensor | None:
        """The names of the classes."""
        return self._classes

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        """Returns the signature of a classification, whose only input are serialized examples."""
        examples = _only_examples(receiver_tensors, "classification")
        return v1.saved_model.classification_signature_def(examples, self._classes, self._scores)


class RegressionOutput(ExportOutput):
    """One number for each example.

    Args:
      value: float [batch] or [batch, 1].

    Raises:
      ValueError: the value is not a tensor of floats.
    """

    def __init__(self, value: tf.Tensor) -> None:
        if not _checked(value, "value").dtype.is_floating:
            raise ValueError(f"value of RegressionOutput must be floats, not {value.dtype.name}: cast it.")
        self._value = value

    @property
    def value(self) -> tf.Tensor:
        """The predicted numbers."""
        return self._value

    def as_signature_def(self, receiver_tensors: Mapping[str, tf.Tensor]) -> Any:
        """Returns the signature of a regression, whose only input are serialized examples."""
        return v1.saved_model.regression_signature_def(_only_examples(receiver_tensors, "regression"), self._value)


def _text_of(name: Any) -> str:
    text = "/".join(name) if isinstance(name, tuple) else name
    if not isinstance(text, str):
        raise ValueError(f"the name {name!r} of an output must be a text, or a tuple of texts.")
    return text


def _checked(tensor: Any, what: str) -> tf.Tensor:
    if not isinstance(tensor, tf.Tensor):
        raise ValueError(f"{what} must be a tensor, not {tensor!r}.")
    return tensor


def _only_examples(receivers: Mapping[str, tf.Tensor], kind: str) -> tf.Tensor:
    """Returns the only input; TensorFlow Serving gives a classification or regression nothing but examples."""
    tensors = list(receivers.values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise ValueError(f"a {kind} takes one string tensor of examples, not {sorted(receivers)}: use PredictOutput.")
    return tensors[0]
