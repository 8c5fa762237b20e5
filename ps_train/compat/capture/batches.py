"""The batches of an input_fn, used as they come.

    data = batched_input(input_fn)              # a Batched of the current graph

An input_fn returns a dataset, or tensors.  Tensors may come from one iterator, which then reads from the engine's
iterator: the input_fn is called twice in each graph, first to find the dataset, then to make the tensors of a batch.

A dataset may have placeholders.  A hook of the program then runs the iterator's initializer with the values, in each
new session.  This initializer is that of the second call, and it starts the engine's iterator.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.counted_step import ancestors
from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.compat.capture.recorded_optimizers import replaced
from ps_train.data.arrays import Batch, Batched, Restart
from ps_train.data.input_result import split_batch

InputFn = Callable[[], Any]

_FED = ("Placeholder", "PlaceholderWithDefault", "VarHandleOp", "VariableV2")
_MAKERS = ("make_one_shot_iterator", "make_initializable_iterator")


def batched_input(input_fn: InputFn) -> Batched:
    """Returns the batches of an input_fn in the current graph.

    Raises:
      CaptureError: the input comes from queues, or from several iterators.
      ValueError: a pair that is not (features, labels).
    """
    iterators = _Found()
    with _iterators_by(iterators.make):
        found = input_fn()
    iterators.forget_initializers()
    if isinstance(found, tf.data.Dataset):
        return Batched(found, lambda element, restart: _pair(element))
    if v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS):
        raise CaptureError("the input_fn reads from queues")
    datasets = iterators.datasets
    if len(datasets) > 1:
        raise CaptureError(f"the input_fn reads from {len(datasets)} iterators")
    dataset = datasets[0] if datasets else tf.data.Dataset.range(1).repeat()

    def complete(element: Any, restart: Restart) -> Batch:
        def give(dataset: Any, *_: Any) -> Any:
            initializer = restart(dataset) if _is_fed(dataset) else tf.no_op()
            return types.SimpleNamespace(get_next=lambda name=None: element, initializer=initializer)

        with _iterators_by(give):
            return _pair(input_fn())

    size = _size_of(found) if not datasets else None
    return Batched(dataset, complete, size, is_fed=bool(datasets) and _is_fed(dataset))


def _is_fed(dataset: tf.data.Dataset) -> bool:
    """Returns True if a dataset reads values that it gets by its initialization, or from variables."""
    return any(op.type in _FED for op in ancestors(tf.data.experimental.to_variant(dataset).op))


def _pair(element: Any) -> Batch:
    """Returns what an input_fn gave as features and labels."""
    return Batch(*split_batch(element))


def _size_of(found: Any) -> int:
    first = tf.nest.flatten(_pair(found).features)[0]
    shape = getattr(first, "shape", None)
    return int(shape[0]) if shape is not None and shape.rank and shape[0] is not None else 1


class _Found:
    """Iterators whose datasets are remembered; their tensors are of no use."""

    def __init__(self) -> None:
        self.datasets: list[Any] = []
        self._iterators: list[Any] = []

    def make(self, dataset: Any, real: Callable[..., Any], arguments: Any, options: Any) -> Any:
        """Returns the iterator of a dataset."""
        self.datasets.append(dataset)
        self._iterators.append(real(dataset, *arguments, **options))
        return self._iterators[-1]

    def forget_initializers(self) -> None:
        """Takes the iterators' initializers out of all collections: they read data for nothing."""
        graph = v1.get_default_graph()
        initializers = [iterator.initializer for iterator in self._iterators if _has_initializer(iterator)]
        for key in graph.get_all_collection_keys():
            collection = graph.get_collection_ref(key)
            collection[:] = [value for value in collection if not any(value is one for one in initializers)]


def _has_initializer(iterator: Any) -> bool:
    try:
        return iterator.initializer is not None
    except ValueError:  # a one-shot iterator
        return False


@contextlib.contextmanager
def _iterators_by(make: Callable[..., Any]) -> Iterator[None]:
    """Makes all iterators of datasets by `make` within the body."""
    owners = [v1.data, v1.data.Dataset, tf.data.Dataset]

    def maker(real: Any) -> Any:
        return lambda dataset, *arguments, **options: make(dataset, real, arguments, options)

    real = [(owner, name, vars(owner)[name]) for owner in owners for name in _MAKERS if name in vars(owner)]
    with replaced([(owner, name, maker(function)) for owner, name, function in real]):
        yield
