"""A split of a job's data, and the checks of its data that need no example: is it empty, endless or batched already?

    split = Split("train", data_dir="/data", batch_size=32, epochs=3)
    split.check(model.data(split.name, split.data_dir))        # raises DataError or ModelError

Only certain mistakes are refused here.  The number of examples of a Stream and of most datasets is not known before
they are read; `no_examples` is the error for those.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError, ModelError
from ps_train.data.arrays import Arrays
from ps_train.data.unbounded.source import UnboundedSource

UNKNOWN = tf.data.experimental.UNKNOWN_CARDINALITY
INFINITE = tf.data.experimental.INFINITE_CARDINALITY

_BATCHING = ("BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset", "RebatchDataset")
_KEEPING = ("Prefetch", "Repeat", "Cache", "Take", "Skip", "Shuffle", "Options", "Shard", "AssertCardinality", "Filter")
"""Beginnings of the operations whose elements are those of their input."""


@dataclasses.dataclass(frozen=True)
class Split:
    """A split of the data as a job uses it.

    Attributes:
      name: "train" or "test".
      data_dir: the job's --data_dir.
      batch_size: examples that the job puts into a batch.
      epochs: number of epochs; 0 means no end.
      has_shards: True if the job assigns shards, --sharding=dynamic.
    """

    name: str
    data_dir: str
    batch_size: int = 32
    epochs: int = 0
    has_shards: bool = True

    def __str__(self) -> str:
        return f"data({self.name!r}, data_dir={self.data_dir!r})"

    def check(self, data: Any) -> int:
        """Checks the value of the model's `data` in the current graph, and returns its `number_of`.

        Raises:
          DataError: it is the training split, and has no examples.
          ModelError: its elements are batches, or it has no end and needs one.
        """
        if isinstance(data, tf.data.Dataset) and is_batched(data, self.batch_size):
            raise ModelError(
                f"{self} returned a dataset that is batched already ({_shown(data.element_spec)}): remove .batch() "
                "from data(), because ps_train makes batches of --batch_size examples itself."
            )
        if isinstance(data, UnboundedSource):
            self._check_unbounded(data)
        count = number_of(data)
        if count == 0 and self.name == "train":
            raise no_examples(str(self))
        if count == INFINITE and (self.epochs or self.name == "test"):
            raise endless(str(self), self.epochs)
        return count

    def _check_unbounded(self, source: UnboundedSource) -> None:
        if self.name == "test":
            raise ModelError(
                f"{self} returned {source.name}, which has no end, so it could never be scored: return data that end."
            )
        if not self.has_shards:
            raise ModelError(
                f"{self} returned {source.name}, which grows while it is read: use --sharding=dynamic, which keeps the "
                "place of each partition."
            )


def no_examples(name: str) -> DataError:
    """Makes the error for training data without examples."""
    return DataError(f"{name} has no examples, so nothing was trained: check --data_dir and the names of its files.")


def no_rows(name: str) -> DataError:
    """Makes the error for data without an end, of which all partitions have ended without a row."""
    return DataError(
        f"{name} had no rows between its start and its end, so nothing was trained: choose an earlier start or a later "
        "end, in another --model_dir."
    )


def endless(name: str, epochs: int = 0) -> ModelError:
    """Makes the error for a dataset that repeats itself although its end is needed."""
    use = f"epochs={epochs} would never end" if epochs else "it could never be scored"
    advice = ", or leave --epochs out" if epochs else ""
    return ModelError(f"{name} returned a dataset that repeats itself, so {use}: remove .repeat() from data(){advice}.")


def number_of(data: Any) -> int:
    """Returns the number of examples, as far as it is known without reading one; UNKNOWN or INFINITE otherwise."""
    if isinstance(data, Arrays):
        return len(data)
    if not isinstance(data, tf.data.Dataset):
        return int(UNKNOWN)
    try:
        # Without a GPU, because TensorFlow would take memory of each.
        with v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session:
            return int(session.run(data.cardinality()))
    except (tf.errors.OpError, RuntimeError, ValueError, TypeError):  # it says more when it is read
        return int(UNKNOWN)


def is_batched(dataset: tf.data.Dataset, batch_size: int) -> bool:
    """Returns True if the elements of a dataset are batches, so that batching them again must be a mistake.

    Every component of a batch begins with a dimension of the same size, mostly an unknown one.  Single examples may
    look the same: sequences.  If their lengths are unknown they cannot be batched; if these are known, the dataset must
    be the direct result of `batch`.
    """
    specs = tf.nest.flatten(dataset.element_spec)
    shapes = [spec.shape for spec in specs if getattr(spec, "shape", None) is not None and spec.shape.rank]
    if not shapes or len(shapes) < len(specs):
        return False
    sizes = {shape[0] for shape in shapes}
    return len(sizes) == 1 and ((sizes == {None} and batch_size > 1) or _is_result_of_batch(dataset))


def _is_result_of_batch(dataset: tf.data.Dataset) -> bool:
    try:
        operation: Any = tf.data.experimental.to_variant(dataset).op
        while operation.type.startswith(_KEEPING):
            operation = operation.inputs[0].op
    except (AttributeError, IndexError):  # made outside of a graph
        return False
    return bool(operation.type.startswith(_BATCHING))


def _shown(element_spec: Any) -> str:
    shapes = tf.nest.map_structure(lambda spec: spec.shape, element_spec)
    return "shapes " + ", ".join(str(shape) for shape in tf.nest.flatten(shapes))
