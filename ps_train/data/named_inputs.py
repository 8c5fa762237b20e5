"""Names of the tensors of a batch, for errors about the user's data.

named = named_inputs(features, labels)      # {"feature age": tensor, "labels": tensor}
name_of(tensor, named)                      # "feature age" for tf.cast(features["age"], tf.float32)

A graph remembers the inputs of its batches, so errors of the running graph can name them too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.base.unsaved_key import UnsavedKey
from ps_train.base.user_code import operations_of, place_of
from ps_train.data.arrays import Batch
from ps_train.data.stream import own_text

_NO_CLASS = re.compile(r"Received a label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)")
_REMEMBERED = UnsavedKey("inputs")

_SAME_VALUES = ("Identity", "Cast", "Reshape", "ExpandDims", "Squeeze", "StridedSlice", "Transpose", "EnsureShape")
"""Types of operations whose result holds the values of their first input, in another form."""


def dense_inputs(features: Any, labels: Any) -> dict[str, tf.Tensor]:
    """Returns the dense tensors of a batch by name: "features", "feature age", "labels" or "label click"."""
    if isinstance(features, Batch):
        features, labels = features
    return {
        f"{kind} {path}" if path else f"{kind}s": value
        for kind, values in (("feature", features), ("label", labels))
        for path, value in _leaves(values)
        if isinstance(value, tf.Tensor)
    }


def named_inputs(features: Any, labels: Any) -> dict[str, tf.Tensor]:
    """Returns the dense tensors of a batch, and the values of its sparse and ragged ones, by name."""
    if isinstance(features, Batch):
        features, labels = features
    return dense_inputs(
        *(tf.nest.map_structure(_values, part) if part is not None else None for part in (features, labels))
    )


def feature_paths(features: Any) -> dict[str, Any]:
    """Returns the features by name, with a slash before each further level; that of a single one is ""."""
    return dict(_leaves(features[0] if isinstance(features, Batch) else features))


def of_kind(kind: str, named: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the inputs of a kind, "feature" or "label"."""
    return {name: tensor for name, tensor in named.items() if name.startswith(kind)}


def remember_inputs(features: Any, labels: Any) -> None:
    """Makes the current graph remember the inputs of a batch."""
    known = v1.get_default_graph().get_collection_ref(_REMEMBERED)
    if isinstance(features, Batch):  # its parts have been remembered by other names
        known.clear()
    known.extend(named_inputs(features, labels).items())


def inputs_of(graph: tf.Graph) -> list[tuple[str, tf.Tensor]]:
    """Returns the inputs of a graph's batches with their names, which several batches share."""
    return list(graph.get_collection(_REMEMBERED))


def label_error(error: tf.errors.OpError) -> DataError | None:
    """Returns the labels' fault behind an error of `session.run`: a class that a sparse softmax does not have."""
    found = _NO_CLASS.search(own_text(error))
    if not found:
        return None
    ops = [op for op in operations_of(error) if op.type == "SparseSoftmaxCrossEntropyWithLogits"]
    name, highest = (input_name(ops[0].inputs[1]) if ops else "") or "a label", int(found[2]) - 1
    return DataError(
        f"{name} has the value {found[1]}, but the loss has classes from 0 to {highest}{place_of(ops)}: correct the "
        "labels, or make outputs for more classes."
    )


def input_name(tensor: tf.Tensor) -> str:
    """Returns the name of the input whose values a tensor of the model holds; "" if it is computed from more."""
    graph = getattr(tensor, "graph", None)
    pairs = graph.get_collection(_REMEMBERED) if graph is not None else ()
    names = {value.ref(): name for name, value in pairs}
    return names.get(source_of(tensor, names).ref(), "") if names else ""


def _values(value: Any) -> Any:
    while isinstance(value, tf.SparseTensor | tf.RaggedTensor):
        value = value.values
    return value


def _leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the path and the value of each leaf of nested values."""
    if isinstance(values, Mapping):
        parts = [(f"{path}/{key}" if path else str(key), value) for key, value in values.items()]
    elif isinstance(values, tuple | list):
        parts = [(f"{path}[{index}]", value) for index, value in enumerate(values)]
    else:
        yield path, values
        return
    for name, value in parts:
        yield from _leaves(value, name)


def source_of(tensor: tf.Tensor, stop: Collection[Any] = ()) -> tf.Tensor:
    """Returns the tensor whose values a tensor holds, behind casts and changes of the shape.

    Args:
      tensor: a tensor of a graph.
      stop: references of tensors at which the search ends.
    """
    while tensor.ref() not in stop and tensor.op.type in _SAME_VALUES and tensor.op.inputs:
        tensor = tensor.op.inputs[0]
    return tensor


def name_of(tensor: tf.Tensor, named: Mapping[str, tf.Tensor]) -> str:
    """Returns the name of the input whose values a tensor holds; "" if it is computed from more."""
    names = {value.ref(): name for name, value in named.items()}
    return names.get(source_of(tensor, names).ref(), "")
