"""Each replica's own share of the data, shuffled and batched.

    source = training_batches(arrays, Share(index=0, count=2), batch_size=32, epochs=0, shuffle_buffer=10_000)
    session.run(source.initializer, source.feeds(seed=7))
    features, labels = source.features, source.labels

The shares of all replicas are disjoint and together are the data.  Of Arrays and datasets example i belongs to replica
i mod count; a Stream divides itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.arrays import Arrays
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.stream import Stream, no_autograph
from ps_train.errors import ModelError


class DataSource:
    """A model's data of one split.  Arrays are loaded once; a `tf.data.Dataset` or a Stream belongs to the graph that
    it is made in, so it is made anew in each.

    Args:
      load: calls the model's `data` method.
      max_bad_lines: how many malformed records a process may skip.
    """

    def __init__(self, load: Callable[[], Any], max_bad_lines: int | None = None) -> None:
        self._load, self._max_bad_lines = load, max_bad_lines
        self._arrays: Arrays | None = None

    def get(self) -> Any:
        """Arrays, a dataset or stream of the current graph, or whatever else the model returned."""
        if self._arrays is not None:
            return self._arrays
        data = self._load()
        if isinstance(data, Arrays):
            self._arrays = data
        if isinstance(data, Stream) and self._max_bad_lines is not None:
            data.set_max_bad_lines(self._max_bad_lines)
        return data


@dataclasses.dataclass(frozen=True)
class Batches:
    """Batches inside a graph.  `initializer` must be run with `feeds` before the first batch.

    Attributes:
      examples: float32 scalar, how many examples the batch stands for: its size, or 0 for a batch after the end.
      taking: the operation that takes the batch from the input.
      ticket: int64 [3], which part of the data it is, where shards are handed out; see `leased.py`.
      ended: set when all input has been read; None where that is not known.
    """

    features: Any
    labels: Any
    examples: tf.Tensor
    initializer: tf.Operation
    taking: tf.Operation
    _iterator: Any
    _fed: dict[Any, Any]
    _seed: tf.Tensor | None = None
    ticket: tf.Tensor | None = None
    ended: threading.Event | None = None

    def next(self, after: Sequence[tf.Tensor]) -> Batches:
        """The batch that follows, in the same step, taken from the input not before those tensors are there."""
        with tf.control_dependencies(after):
            return _take(self._iterator, self._fed, self._seed, self.ended)

    def feeds(self, seed: int = 0) -> dict[Any, Any]:
        """What to feed to the initializer; the seed fixes the order of the examples."""
        return {**self._fed, **({self._seed: seed} if self._seed is not None else {})}


def training_batches(
    data: Arrays | tf.data.Dataset | Stream,
    share: DataShard,
    batch_size: int,
    epochs: int,
    shuffle_buffer: int,
    endless: bool = False,
) -> Batches:
    """A replica's batches.  With `epochs` > 0 they end, the last one being short where the examples run out.

    If `endless`, the first batch is given again and again after that, standing for no examples: replicas that make
    every step together must not fail in the middle of one.
    """
    seed = v1.placeholder(tf.int64, [], "shuffle_seed") if shuffle_buffer else None
    fed: dict[Any, Any] = {}
    if isinstance(data, Stream):
        chunks = data.chunks(share, seed)
        dataset = _repeated_chunks(chunks, epochs, shuffle_buffer, seed).rebatch(batch_size)
    else:
        dataset, pick, fed = _dataset(data)
        if share.count > 1:
            dataset = dataset.shard(share.count, share.index)
        if seed is not None:
            dataset = dataset.shuffle(_buffer(data, share, shuffle_buffer), seed=seed)
        dataset = pick(dataset.repeat(epochs or None).batch(batch_size))
    if endless and epochs:
        after = dataset.take(1).cache().repeat()
        dataset = _marked(dataset, 1.0).concatenate(_marked(after, 0.0))
    else:
        dataset = _marked(dataset, 1.0)
    ended = threading.Event()
    dataset = dataset.concatenate(_signal_end(dataset, ended)).prefetch(2)
    options = tf.data.Options()
    options.experimental_warm_start = True  # reads ahead for whoever begins, not for the first session that reads
    return batches_of(dataset.with_options(options), fed, seed, "ps_train_input", ended)


def evaluation_batches(data: Arrays | tf.data.Dataset | Stream, batch_size: int, share: DataShard = WHOLE) -> Batches:
    """All examples of a share once, in order."""
    fed: dict[Any, Any] = {}
    if isinstance(data, Stream):
        dataset = data.chunks(share, None).rebatch(batch_size)
    else:
        examples, pick, fed = _dataset(data)
        if share.count > 1:
            examples = examples.shard(share.count, share.index)
        dataset = pick(examples.batch(batch_size))
    return batches_of(_marked(dataset, 1.0).prefetch(2), fed, None)


def _repeated_chunks(chunks: tf.data.Dataset, epochs: int, pool: int, seed: tf.Tensor | None) -> tf.data.Dataset:
    """Passes over a stream, shuffled a pool at a time: a buffer of single examples halves the speed of reading."""
    if seed is None:
        return chunks.repeat(epochs or None)

    def shuffle(number: tf.Tensor, examples: Any) -> Any:
        count = tf.shape(tf.nest.flatten(examples)[0])[0]
        order = tf.random.experimental.stateless_shuffle(tf.range(count), seed=tf.stack([seed, number]))
        return tf.nest.map_structure(lambda values: tf.gather(values, order), examples)

    # Pools are numbered through all passes, so that each of them has an order of its own.
    return (
        chunks.rebatch(pool)
        .repeat(epochs or None)
        .map(no_autograph(lambda *examples: examples))
        .enumerate()
        .map(no_autograph(shuffle))
    )


def _signal_end(dataset: tf.data.Dataset, ended: threading.Event) -> tf.data.Dataset:
    """Has no elements, and sets the event when it is read.  The end that TensorFlow reports does not tell that: an
    iterator reports the same for ever when a call that read from it was cancelled."""

    def tell(number: Any) -> Any:
        ended.set()
        return number

    told = tf.data.Dataset.range(1).map(no_autograph(lambda number: tf.numpy_function(tell, [number], tf.int64)))
    return told.flat_map(no_autograph(lambda _: dataset.take(0)))


def _marked(dataset: tf.data.Dataset, live: float) -> tf.data.Dataset:
    return dataset.map(no_autograph(lambda *batch: (batch, live)))


def derived_seed(*parts: object) -> int:
    """A seed that depends on all parts and on nothing else; 31 bits."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") >> 1


def _dataset(data: Any) -> tuple[tf.data.Dataset, Callable[[tf.data.Dataset], tf.data.Dataset], dict[Any, Any]]:
    """What is shuffled and batched, what becomes of its batches, and what is to be fed.

    Of Arrays it is the numbers of the examples, which are picked a batch at a time: one by one they would take three
    times as long.  The arrays are fed through placeholders, because as constants they would be copied into the graph
    (2 GB at most)."""
    if isinstance(data, tf.data.Dataset):
        try:
            return data.take(-1), lambda batches: batches, {}  # a map would make dense what is ragged
        except RuntimeError:  # TensorFlow's word for a dataset that was made outside of this graph
            raise ModelError("data() must make its tf.data.Dataset anew each time it is called.") from None
    if not isinstance(data, Arrays):
        raise ModelError(
            f"data() returned {type(data).__name__}: return ps_train.Arrays, a tf.data.Dataset or a Stream."
        )
    arrays = (data.features, data.labels)
    holders = tf.nest.map_structure(lambda array: v1.placeholder(array.dtype, array.shape), arrays)
    fed = dict(zip(tf.nest.flatten(holders), tf.nest.flatten(arrays), strict=True))

    def pick(batches: tf.data.Dataset) -> tf.data.Dataset:
        return batches.map(
            no_autograph(lambda rows: tf.nest.map_structure(lambda holder: tf.gather(holder, rows), holders))
        )

    return tf.data.Dataset.range(len(data)), pick, fed


def _buffer(data: Any, share: DataShard, wanted: int) -> int:
    return min(wanted, max(1, -(-len(data) // share.count))) if isinstance(data, Arrays) else wanted


def batches_of(
    dataset: tf.data.Dataset,
    fed: dict[Any, Any],
    seed: tf.Tensor | None,
    shared_name: str | None = None,
    ended: threading.Event | None = None,
) -> Batches:
    """Of elements ((features, labels), live[, ticket]).

    With a name the iterator is the server's, not the session's: one that lost a ps is not the end of it."""
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread costs more than it gains on pipelines as short as these
    iterator = v1.data.make_initializable_iterator(dataset.with_options(options), shared_name)
    return _take(iterator, fed, seed, ended)


def _take(iterator: Any, fed: dict[Any, Any], seed: tf.Tensor | None, ended: threading.Event | None) -> Batches:
    element, live, *rest = iterator.get_next()
    if not isinstance(element, tuple) or len(element) != 2:
        raise ModelError("data() must give (features, labels) pairs.")
    features, labels = element
    size = tf.cast(tf.shape(tf.nest.flatten(labels)[0])[0], tf.float32)
    ticket = rest[0] if rest else None
    return Batches(features, labels, size * live, iterator.initializer, live.op, iterator, fed, seed, ticket, ended)
