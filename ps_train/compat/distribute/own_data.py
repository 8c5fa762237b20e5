"""The data of a program's own loop: each worker's part of them.

    part = part_of(dataset, Part(count=2, index=0), seed=7)
    whole_of(part)                      # the dataset, for a `fit`, which divides its batches itself

Every worker runs the program, and so makes the whole dataset.  Its shuffles get the same seed everywhere.  So the parts
of all workers are the batches of one order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import DataError
from ps_train.data.example_rows import count_of, slice_rows
from ps_train.data.sent.dataset_graph import dataset_graph, imported_dataset, spec_of_batches
from ps_train.data.sent.part import Part, mapped, on_tensors, repacked

log = logging.getLogger(__name__)

_WHOLE = "ps_train_whole"
"""Attribute of a dataset that is a part: a function that returns the whole one."""


def part_of(dataset: tf.data.Dataset, part: Part, seed: int) -> tf.data.Dataset:
    """Returns the batches of one worker.

    Args:
      dataset: the batches of all workers.
      part: that of the worker; with `deal` whole batches, else a piece of each, which may be empty.
      seed: of the shuffles that have none.

    Raises:
      DataError: the elements are single examples.
    """
    spec_of_batches("tf.data.Dataset", dataset.element_spec)
    batches = _seeded(dataset, seed)

    def piece(batch: Any) -> Any:
        first, last = part.bounds(on_tensors(count_of, batch))
        return repacked(lambda tensors: slice_rows(tensors, first, last), batch)

    found = batches.shard(part.count, part.index) if part.deal else mapped(batches, piece)
    return marked(found.prefetch(2), lambda: dataset)


def _seeded(dataset: tf.data.Dataset, seed: int) -> tf.data.Dataset:
    """Returns the dataset with seeds for its shuffles, as they are in every process."""
    try:
        graph = dataset_graph(dataset, seed)
    except DataError as error:
        log.warning("the workers' parts may overlap where the dataset is shuffled without a seed: %s", error)
        return dataset
    variant = v1.wrap_function(lambda: tf.data.experimental.to_variant(imported_dataset(graph)), [])
    return tf.data.experimental.from_variant(variant(), dataset.element_spec)


def marked(part: Any, whole: Callable[[], Any]) -> Any:
    """Returns a dataset that is a part of what `whole` makes."""
    if isinstance(part, tf.data.Dataset):
        setattr(part, _WHOLE, whole)
    return part


def whole_of(data: Any) -> Any:
    """Returns the whole dataset of a part, and other data as they are."""
    whole = getattr(data, _WHOLE, None) if isinstance(data, tf.data.Dataset) else None
    return data if whole is None else whole()
