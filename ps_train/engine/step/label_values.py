"""Check of the labels of a binary cross-entropy in the first steps: they must be 0 to 1.

Labels of -1 and +1 train a worthless model without an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.user_code import place_of
from ps_train.data.named_inputs import input_name

log = logging.getLogger(__name__)

_CHECKED_STEPS = 3


class BinaryLabels(NamedTuple):
    """The labels of a binary cross-entropy.

    Attributes:
      name: name of the input.
      values: their tensor.
      op: an operation of the cross-entropy.
    """

    name: str
    values: tf.Tensor
    op: tf.Operation


class LabelValuesHook(v1.train.SessionRunHook):
    """Warns once if the labels of a binary cross-entropy are outside of 0 to 1 in one of the first steps with hooks.

    It is made while the graph of the step can still change: a training graph is finalized before its first session.
    """

    def __init__(self) -> None:
        graph = v1.get_default_graph()
        self._found = [found for found in binary_labels(graph) if graph.is_fetchable(found.values)]
        self._ranges = [[tf.reduce_min(found.values), tf.reduce_max(found.values)] for found in self._found]
        self._left = _CHECKED_STEPS

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs | None:
        """Fetches the least and the largest label in every call: each set of fetches is prepared by itself."""
        return v1.train.SessionRunArgs(self._ranges) if self._found else None

    def after_run(self, run_context: Any, run_values: v1.train.SessionRunValues) -> None:
        """Checks them in the first calls."""
        if not self._left:
            return
        self._left -= 1
        for found, (least, largest) in zip(self._found, run_values.results or (), strict=False):
            if least < 0 or largest > 1:
                log.warning(
                    "a binary cross-entropy%s gets %s from %g to %g and needs 0 to 1: the model learns nothing of use; "
                    "turn labels of -1 and 1 into (labels + 1) / 2, or use another loss",
                    place_of([found.op]), found.name, least, largest,
                )  # fmt: skip
                self._left = 0


def binary_labels(graph: tf.Graph) -> Iterator[BinaryLabels]:
    """Yields the inputs that are labels of a binary cross-entropy, of logits or of probabilities."""
    seen = set()
    for op in graph.get_operations():
        found = _of_logits(op) if op.type == "Log1p" else _of_probabilities(op) if op.type == "Log" else None
        if found is not None and found.dtype.is_floating and found.ref() not in seen and (name := input_name(found)):
            seen.add(found.ref())
            yield BinaryLabels(name, found, op)


def _of_logits(op: tf.Operation) -> tf.Tensor | None:
    """Returns the labels z of max(x, 0) - x * z + log1p(exp(-abs(x)))."""
    if op.inputs[0].op.type != "Exp":
        return None
    for total in op.outputs[0].consumers():
        for other in total.inputs if total.type in ("Add", "AddV2") else ():
            if other.op.type == "Sub" and (product := other.op.inputs[1].op).type == "Mul":
                return product.inputs[1]
    return None


def _of_probabilities(op: tf.Operation) -> tf.Tensor | None:
    """Returns the labels z of z * log(p) + (1 - z) * log(1 - p)."""
    for product in op.outputs[0].consumers():
        for factor in product.inputs if product.type == "Mul" else ():
            labels = factor.op.inputs[0] if factor.op.type == "Neg" else factor
            if any(_is_other_half(reader, labels) for reader in labels.consumers()):
                return labels
    return None


def _is_other_half(op: tf.Operation, labels: tf.Tensor) -> bool:
    """Returns True for 1 - labels times a logarithm."""
    if op.type != "Sub" or op.inputs[1] is not labels:
        return False
    products = [reader for reader in op.outputs[0].consumers() if reader.type == "Mul"]
    return any(factor.op.type == "Log" for product in products for factor in product.inputs)
