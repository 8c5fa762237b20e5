"""Metrics of parts of the test data: one part for each frequent value of a field of the features (--eval_by).

    keys = slice_keys(batches.features, "country")              # string [batch]
    slices = Slices.of_counts("country", {b"de": 70, b"fr": 30})
    found = slice_metrics(model, build, slices, batches, outputs)
    found[0].name, found[0].metrics                             # "de", {"auc": (value, update)}

The model's outputs are computed once.  Its metrics are built again for each slice, from the slice's rows of outputs and
labels, so this works for every metric.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError, nearest
from ps_train.config.slice_names import OTHERS, names_of_values
from ps_train.data.example_rows import count_of, gather_rows
from ps_train.data.named_inputs import feature_paths
from ps_train.data.pipeline import Batches
from ps_train.engine.step.metric_sums import make_count
from ps_train.engine.variables.user_variables import ModelBuild
from ps_train.modeling.model import Model

EXAMPLES = "examples"
"""Name of the number of a slice's examples among its metrics."""

MOST_VALUES = 20
_MOST_COUNTED, _SHOWN_NAMES = 1_000_000, 8


@dataclasses.dataclass(frozen=True)
class Slices:
    """The parts of the test data.

    Attributes:
      field: the field of the features; "" for no slices.
      values: the values that have a slice of their own, as UTF-8 with surrogates for other bytes.
    """

    field: str = ""
    values: tuple[str, ...] = ()

    @classmethod
    def of_counts(cls, field: str, counts: Mapping[bytes, int]) -> Slices:
        """Returns slices for the most frequent values, the most frequent one first."""
        frequent = sorted(counts, key=lambda value: (-counts[value], value))[:MOST_VALUES]
        return cls(field, tuple(value.decode("utf-8", "surrogateescape") for value in frequent))

    def keys(self) -> list[bytes]:
        """Returns the values as `slice_keys` gives them."""
        return [value.encode("utf-8", "surrogateescape") for value in self.values]

    def names(self) -> list[str]:
        """Returns the names of the slices for users: those of the values, and of the other ones."""
        return [*names_of_values(self.keys()), OTHERS]


NO_SLICES = Slices()


@dataclasses.dataclass(frozen=True)
class SliceMetrics:
    """The metrics of a slice.

    Attributes:
      name: name of the slice.
      count: variable, the number of its examples.
      metrics: name to `(value, update)`.
    """

    name: str
    count: Any
    metrics: Mapping[str, tuple[tf.Tensor, Any]]


def count_values(counts: dict[bytes, int], keys: np.ndarray[Any, Any]) -> dict[bytes, int]:
    """Returns the counts of values with those of a batch added.

    Beyond a million values the rare half is forgotten.
    """
    for value, number in zip(*np.unique(keys, return_counts=True), strict=True):
        counts[value] = counts.get(value, 0) + int(number)
    if len(counts) <= _MOST_COUNTED:
        return counts
    frequent = sorted(counts, key=lambda value: -counts[value])[: _MOST_COUNTED // 2]
    return {value: counts[value] for value in frequent}


def slice_keys(features: Any, field: str, given: str = "") -> tf.Tensor:
    """Returns the value of a field in each example, as text, string [batch].

    Args:
      features: the features of a batch.
      field: name of a feature, with a slash before each further level of nested features.
      given: name of the flag with its value and source, for errors.

    Raises:
      ConfigError: there is no such field, or it is not a whole number, truth value or string for each example.
    """
    given, paths = given or f"eval_by={field}", feature_paths(features)
    if set(paths) == {""}:
        raise ConfigError(f"{given}: the features have no names; data() must return a dict of features.")
    if field not in paths:
        more = "" if len(paths) <= _SHOWN_NAMES else f" (and {len(paths) - _SHOWN_NAMES} more)"
        first = ", ".join(sorted(paths)[:_SHOWN_NAMES]) + more
        names = nearest(field, paths, "{}", first, most=_SHOWN_NAMES, cutoff=0.5)
        raise ConfigError(f"{given}: there is no such feature; use one of {names}.")
    value = paths[field]
    is_column = isinstance(value, tf.Tensor) and (
        value.shape.rank == 1 or (value.shape.rank == 2 and value.shape[1] == 1)
    )
    if not is_column or not (value.dtype.is_integer or value.dtype.is_bool or value.dtype == tf.string):
        kind = type(value).__name__ if not isinstance(value, tf.Tensor) else "feature"
        raise ConfigError(
            f"{given}: it is a {kind} of {value.dtype.name} and shape {value.shape}; use a feature with one whole "
            "number, truth value or string for each example."
        )
    value = tf.reshape(value, [-1])
    return value if value.dtype == tf.string else tf.strings.as_string(value)


def slice_numbers(keys: tf.Tensor, slices: Slices) -> tf.Tensor:
    """Returns the number of the slice of each key, int64 [batch]; the last one for other values.

    Args:
      keys: result of `slice_keys`, string [batch].
      slices: their order gives the numbers.
    """
    own = tf.constant(slices.keys(), tf.string, [len(slices.values)])
    is_of = tf.concat([tf.equal(keys[:, tf.newaxis], own), tf.ones_like(keys[:, tf.newaxis], tf.bool)], axis=1)
    return tf.argmax(tf.cast(is_of, tf.int32), axis=1)  # the first one that is true


def slice_metrics(
    model: Model, build: ModelBuild, slices: Slices, batches: Batches, outputs: Any, given: str = ""
) -> list[SliceMetrics]:
    """Returns the metrics of each slice, that of all other values last.

    Args:
      model: the user's model.
      build: its construction, in which `metrics()` has been called already.
      slices: the field, and its values that have metrics.
      batches: the batches of the test data.
      outputs: the model's outputs.
      given: see `slice_keys`.

    Raises:
      ConfigError: see `slice_keys`.
      ModelError: the metrics depend on other tensors of the batch than outputs and labels.
    """
    if not slices.field:
        return []
    keys = slice_keys(batches.features, slices.field, given)
    numbers = slice_numbers(keys, slices)
    found = []
    for number, name in enumerate(slices.names()):
        build.local_prefix = f"ps_train/slice_{number}/"
        rows = tf.where(tf.equal(numbers, number))[:, 0]
        taken = _Rows(rows, tf.shape(keys, tf.int64)[0])
        metrics = model.metrics(taken.of(outputs), taken.of(batches.labels))
        _check_inputs(metrics, taken, given or f"eval_by={slices.field}")
        found.append(_with_count(name, rows, metrics))
    build.local_prefix = ""
    return found


class _Rows:
    """Some rows of a batch.

    Args:
      rows: their numbers.
      batch: the number of all rows.

    Attributes:
      made: names of the operations that made them.
    """

    def __init__(self, rows: tf.Tensor, batch: tf.Tensor) -> None:
        self._rows, self._batch = rows, batch
        self.made = set[str]()

    def of(self, values: Any) -> Any:
        """Returns nested values with these rows of each tensor that has a row for each example."""
        return tf.nest.map_structure(self._of, values)

    def _of(self, value: Any) -> Any:
        if not isinstance(value, tf.Tensor | tf.SparseTensor | tf.RaggedTensor) or value.shape.rank == 0:
            return value
        if value.shape.rank is not None and value.shape[0] is not None:  # a batch has any number of rows
            return value
        count = count_of(value)
        rows = tf.cond(tf.equal(count, self._batch), lambda: self._rows, lambda: tf.range(count))
        found = gather_rows(value, rows)
        self.made.update(part.op.name for part in tf.nest.flatten(found, expand_composites=True))
        return found


def _with_count(name: str, rows: tf.Tensor, metrics: Mapping[str, tuple[tf.Tensor, Any]]) -> SliceMetrics:
    count = make_count("ps_train/of_slice")
    added = count.assign_add(tf.cast(tf.size(rows), tf.float64), read_value=False)
    return SliceMetrics(name, count, {EXAMPLES: (count.read_value(), added), **metrics})


def _check_inputs(metrics: Mapping[str, tuple[tf.Tensor, Any]], taken: _Rows, given: str) -> None:
    """Raises ModelError if a metric depends on the whole batch."""
    for name, pair in metrics.items():
        ops = [one if isinstance(one, tf.Operation) else one.op for one in pair]
        if any(op.type == "IteratorGetNext" for op in _ancestors(ops, taken.made)):
            raise ModelError(
                f"{given}: metric {name} uses a tensor that is not among the arguments of metrics(), so that it cannot "
                "be divided; let forward() return it with the outputs, as one of a dict."
            )


def _ancestors(ops: Sequence[tf.Operation], stop: set[str]) -> Iterator[tf.Operation]:
    seen, pending = set(stop), list(ops)
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen.add(op.name)
            yield op
            pending += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
