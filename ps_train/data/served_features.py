"""The features of a model as its export takes them: by their names, or from serialized `tf.train.Example`s.

    served = ServedFeatures(batch_features)          # raises ModelError for those that cannot be exported
    features, inputs = served.placeholders(tf.compat.v1.placeholder(tf.string, [None]))
    outputs = model.forward(features, False)         # `inputs` has the tensors of a signature by their names

A SavedModel takes plain tensors alone, so a sparse or ragged feature `ids` is several inputs: `ids_indices`,
`ids_values` and `ids_dense_shape`, or `ids_values` and `ids_row_splits`.  In an example it is one list, `ids`.  Only a
sparse feature of a known width, whose positions may have a meaning, is two there: `ids_indices` and `ids_values`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError

_ONLY = "features"
_KINDS = "an export has dense features of fixed shapes, and ragged and sparse ones [batch, any]"


class ServedFeatures:
    """Features by their names; features without names are the feature "features".

    Args:
      features: of a batch, in any graph.

    Raises:
      ModelError: a feature cannot be exported, or two inputs would have one name.
    """

    def __init__(self, features: Any) -> None:
        self._is_only = not isinstance(features, Mapping)
        named = {_ONLY: features} if self._is_only else features
        for name, feature in named.items():
            _check(name, feature)
        self._specs = {name: tf.type_spec_from_value(feature) for name, feature in named.items()}
        inputs = Counter(f"{name}{end}" for name, spec in self._specs.items() for end in _ends(spec))
        if twice := [name for name, count in inputs.items() if count > 1]:
            raise ModelError(f"an export would have two inputs {twice[0]}, of different features: rename one of them.")

    def placeholders(self, serialized: tf.Tensor) -> tuple[Any, dict[str, tf.Tensor]]:
        """Parses serialized examples into features, which can be fed instead.

        Args:
          serialized: texts [batch], a `tf.train.Example` each.

        Returns:
          The features, as `Model.forward` takes them; and the tensors that can be fed, by the names of inputs.
        """
        parsed = tf.io.parse_example(serialized, {name: _parser(name, spec) for name, spec in self._specs.items()})
        features: dict[str, Any] = {}
        inputs: dict[str, tf.Tensor] = {}
        for name, spec in self._specs.items():
            parts = _parts(tf.cast(parsed[name], spec.dtype))
            made = {name + end: _placeholder(name + end, part) for end, part in zip(_ends(spec), parts, strict=True)}
            features[name] = _joined(spec, list(made.values()))
            inputs |= made
        return features[_ONLY] if self._is_only else features, inputs


def _check(name: str, feature: Any) -> None:
    if not isinstance(feature, tf.Tensor | tf.SparseTensor | tf.RaggedTensor):
        raise ModelError(f"feature {name} is a {type(feature).__name__}: {_KINDS}; leave out --export_dir.")
    if isinstance(feature, tf.Tensor):
        is_fixed = feature.shape.rank is not None and feature.shape[1:].is_fully_defined()
    else:
        is_fixed = feature.shape.rank == 2
    if not is_fixed:
        way = "use tf.ensure_shape in data(), or " if isinstance(feature, tf.Tensor) else ""
        raise ModelError(f"feature {name} has the shape {feature.shape}: {_KINDS}; {way}leave out --export_dir.")


def _parser(name: str, spec: Any) -> Any:
    """Returns what `tf.io.parse_example` needs for a feature.  Examples have three dtypes alone."""
    dtype = tf.string if spec.dtype == tf.string else tf.float32 if spec.dtype.is_floating else tf.int64
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.io.RaggedFeature(dtype, row_splits_dtype=spec.row_splits_dtype)
    if not isinstance(spec, tf.SparseTensorSpec):
        return tf.io.FixedLenFeature(spec.shape[1:], dtype)
    width = spec.shape[1]
    return (
        tf.io.VarLenFeature(dtype)
        if width is None
        else tf.io.SparseFeature(f"{name}_indices", f"{name}_values", dtype, width)
    )


def _ends(spec: Any) -> tuple[str, ...]:
    """Returns the ends of the names of a feature's inputs."""
    if isinstance(spec, tf.SparseTensorSpec):
        return ("_indices", "_values", "_dense_shape")
    return ("_values", "_row_splits") if isinstance(spec, tf.RaggedTensorSpec) else ("",)


def _parts(value: Any) -> tuple[tf.Tensor, ...]:
    """Returns the tensors of a feature, in the order of `_ends`."""
    if isinstance(value, tf.SparseTensor):
        return (value.indices, value.values, value.dense_shape)
    return (value.values, value.row_splits) if isinstance(value, tf.RaggedTensor) else (value,)


def _joined(spec: Any, parts: list[tf.Tensor]) -> Any:
    """Returns the feature of its tensors; the reverse of `_parts`."""
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensor(*parts)
    return tf.RaggedTensor.from_row_splits(*parts) if isinstance(spec, tf.RaggedTensorSpec) else parts[0]


def _placeholder(name: str, value: tf.Tensor) -> tf.Tensor:
    """Returns a tensor that can be fed.  Its node has a valid name; the signature has the feature's own."""
    return v1.placeholder_with_default(value, value.shape, "features/" + re.sub("[^A-Za-z0-9_.-]", "_", name))
