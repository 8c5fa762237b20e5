"""The input pipeline: each replica's shard of the data, shuffled and batched.

    batches = training_batches(arrays, DataShard(index=0, count=2), batch_size=32, epochs=0, shuffle_buffer=10_000)
    session.run(batches.initializer, batches.feeds(seed=7))
    features, labels = batches.features, batches.labels

The shards of all replicas are disjoint, and their union is the data.  In Arrays and datasets, example i belongs to
shard i mod count.  A Stream cuts itself into shards.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.base.polling import told_while_running
from ps_train.base.process_stats import available_cores, memory_limit
from ps_train.base.user_code import user_code
from ps_train.data.arrays import Arrays, Batched, DealtBatches
from ps_train.data.batching import ONE_SIZE, Batching
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.example_rows import count_of, gather_rows
from ps_train.data.named_inputs import remember_inputs
from ps_train.data.split import UNKNOWN, Split
from ps_train.data.stream import Stream, no_autograph
from ps_train.data.wrong_data import wrong_data

_inputs = itertools.count()


def _shared_name() -> str:
    """Returns the name of an input, of this graph alone: a server may serve a second job, with data of other types."""
    return f"ps_train_input_{next(_inputs)}"


_LEAST_BYTES = 128
"""Bytes that an example in a shuffle buffer takes at least: each of its tensors has an allocation of its own."""


class DataSource:
    """A model's data of one split.

    Arrays are loaded once.  A `tf.data.Dataset` or a Stream belongs to one graph, so each graph loads its own.

    Args:
      load: calls the model's `data` method.
      max_bad_lines: number of malformed records that a process may skip.
      split: checks the first value of `load`; None checks nothing.

    Attributes:
      name: name of the data in errors.
      description: that of a Stream, once `get` has loaded it.
      count: number of examples, once `get` has loaded them; UNKNOWN where that is not known, and without a split.
    """

    def __init__(self, load: Callable[[], Any], max_bad_lines: int | None = None, split: Split | None = None) -> None:
        self._load, self._max_bad_lines, self._split = load, max_bad_lines, split
        self.name, self.description = str(split) if split is not None else "data()", ""
        self.count = int(UNKNOWN)
        self._arrays: Arrays | None = None

    @property
    def loaded(self) -> Arrays | None:
        """Returns the Arrays, if `get` has loaded some."""
        return self._arrays

    def get(self) -> Any:
        """Returns the value of the model's `data`: Arrays, or a dataset or Stream of the current graph."""
        if self._arrays is not None:
            return self._arrays
        with user_code("data()"), told_while_running(self.name):
            data = self._load()
        if self._split is not None:
            split, self._split = self._split, None
            self.count = split.check(data)
        if isinstance(data, Arrays):
            self._arrays = data
        if isinstance(data, Stream):
            self.description = data.description
            if self._max_bad_lines is not None:
                data.set_max_bad_lines(self._max_bad_lines)
        return data


def _copy(tensor: tf.Tensor | None) -> tf.Tensor | None:
    return None if tensor is None else tf.identity(tensor)


@dataclasses.dataclass(frozen=True)
class Batches:
    """Batches inside a graph.  Run `initializer` with `feeds` before the first batch.

    Attributes:
      features: the batch's features, a tensor or nested tensors [batch, ...].
      labels: the batch's labels, a tensor or nested tensors [batch, ...].
      examples: float32 scalar, number of examples that the batch stands for: its size, or 0 after the end.
      initializer: the operation that (re)starts the input.
      get_next_op: the operation that reads the batch from the input.
      progress: int64 [3], the batch's part of its shard under dynamic sharding, else None; see
        `data/shards/shard_batches.py`.
      ended: set when all input has been read; None if the end is not observed.
      cardinality: int64 scalar, the number of batches or `split.UNKNOWN` or `split.INFINITE`; None: known to be finite.
      name: name of the data in errors.
      start: the number of the first batch, where the input can begin with any; else None.
      is_apart: whether no tensor that others use is one of `get_next_op`; see `apart`.
    """

    features: Any
    labels: Any
    examples: tf.Tensor
    initializer: tf.Operation
    get_next_op: tf.Operation
    _iterator: Any
    _array_feeds: dict[Any, Any]
    _seed: tf.Tensor | None = None
    progress: tf.Tensor | None = None
    ended: threading.Event | None = None
    cardinality: tf.Tensor | None = None
    name: str = "data()"
    start: tf.Tensor | None = None
    is_apart: bool = False

    def apart(self) -> Batches:
        """Returns the same batches with tensors of their own, which may later come from elsewhere than the input."""
        own = {name: getattr(self, name) for name in ("features", "labels", "examples", "progress")}
        copies = tf.nest.map_structure(_copy, own, expand_composites=True)
        return dataclasses.replace(self, **copies, is_apart=True)

    def next(self, after: Sequence[tf.Tensor]) -> Batches:
        """Returns the following batch in the same step, read from the input after the tensors `after`."""
        with tf.control_dependencies(after):
            found = _get_next(self._iterator, self._array_feeds, self._seed, self.ended)
        return found.apart() if self.is_apart else found

    def initializer_for(self, dataset: tf.data.Dataset) -> tf.Operation:
        """Returns an operation that starts the input with another dataset of such elements."""
        return self._iterator.make_initializer(dataset)

    def feeds(self, seed: int = 0, start: int = 0) -> dict[Any, Any]:
        """Returns the feeds of the initializer.

        Args:
          seed: fixes the order of the examples.
          start: number of the first batch, if the input can begin with any.
        """
        seeds = {self._seed: seed} if self._seed is not None else {}
        starts = {self.start: start} if self.start is not None else {}
        return {**self._array_feeds, **seeds, **starts}


def training_batches(
    data: Arrays | tf.data.Dataset | Stream | Batched,
    shard: DataShard,
    batch_size: int,
    epochs: int,
    shuffle_buffer: int,
    endless: bool = False,
    batching: Batching = ONE_SIZE,
    of_known_size: bool = False,
) -> Batches:
    """Returns a replica's training batches.

    Args:
      data: the data of all replicas; Batched data are used as they come, so that only `epochs` matters to them.
      shard: this replica's part.
      batch_size: examples in the smallest batch but the last one, which may be shorter.
      epochs: number of epochs; 0 means no end.
      shuffle_buffer: examples to shuffle among; 0 keeps the order of the data.
      endless: True repeats the first batch, without examples, after the end; synchronous replicas must not fail.
      batching: the way in which batches are formed.
      of_known_size: True if all batches are whole, since there is no last one: their size is known when the graph is
        built, which saves a quarter of the nodes of a deep model's gradients.
    """
    seed = v1.placeholder(tf.int64, [], "shuffle_seed") if shuffle_buffer else None
    array_feeds: dict[Any, Any] = {}
    if isinstance(data, DealtBatches):
        start = v1.placeholder(tf.int64, [], "first_batch")
        batches = _own_batches(data.dealt(shard.count, shard.index, start), epochs, endless, batching)
        return dataclasses.replace(batches, start=start)
    if isinstance(data, Batched):
        return _own_batches(data, epochs, endless, batching)
    if isinstance(data, Stream):
        chunks = data.chunks(shard, seed)
        dataset = repeated_chunks(chunks, epochs, shuffle_buffer, seed).rebatch(
            batch_size, drop_remainder=of_known_size
        )
    else:
        dataset, gather, array_feeds = _dataset(data)
        if shard.count > 1:
            dataset = dataset.shard(shard.count, shard.index)
        if seed is not None:
            dataset = dataset.shuffle(_buffer(data, shard, shuffle_buffer), seed=seed)
        dataset = gather(dataset.repeat(epochs or None).batch(batch_size, drop_remainder=of_known_size))
    ended = threading.Event()
    dataset = _to_the_end(dataset, endless and bool(epochs), ended, batching)
    return batches_of(dataset, array_feeds, seed, _shared_name(), ended)


def _own_batches(data: Batched, epochs: int, endless: bool, batching: Batching) -> Batches:
    """Returns the training batches of batched data, which may start with each dataset that `restart` gets."""
    ended = threading.Event()

    def whole(dataset: tf.data.Dataset) -> tf.data.Dataset:
        elements = data.elements(dataset).repeat(epochs or None)
        return _without_autotune(_to_the_end(elements, endless and bool(epochs), ended, batching))

    batches = batches_of(whole(data.dataset), {}, None, _shared_name(), ended)
    features = data.batch(batches.features, lambda dataset: batches.initializer_for(whole(dataset)))
    initializer = tf.no_op() if data.is_fed else batches.initializer
    remember_inputs(features, None)
    return dataclasses.replace(batches, features=features, initializer=initializer)


def _to_the_end(dataset: tf.data.Dataset, endless: bool, ended: threading.Event, batching: Batching) -> tf.data.Dataset:
    """Returns a dataset of weighted batches that tells its end, and is read ahead."""
    dataset = batching.joined(dataset)
    dataset = _padded(dataset) if endless else _weighted(dataset, 1.0)
    return _reading_ahead(dataset.concatenate(_signal_end(dataset, ended)), batching)


def _reading_ahead(dataset: tf.data.Dataset, batching: Batching) -> tf.data.Dataset:
    """Returns a dataset that is read ahead from its initialization on, not from the first get_next on."""
    dataset = dataset.prefetch(batching.ahead) if batching.ahead else dataset
    options = tf.data.Options()
    options.experimental_warm_start = True
    return dataset.with_options(options)


def evaluation_batches(data: Arrays | tf.data.Dataset | Stream, batch_size: int, shard: DataShard = WHOLE) -> Batches:
    """Returns all examples of a shard once, in order.

    The batches of a shard of Arrays or a Dataset are some of those of all examples, so a mean over batches is the same
    for any number of shards.
    """
    array_feeds: dict[Any, Any] = {}
    if isinstance(data, Stream):
        dataset = data.chunks(shard, None).rebatch(batch_size)
    else:
        examples, gather, array_feeds = _dataset(data)
        examples = examples.batch(batch_size)
        if shard.count > 1:
            examples = examples.shard(shard.count, shard.index)
        dataset = gather(examples)
    batches = batches_of(_weighted(dataset, 1.0).prefetch(2), array_feeds, None)
    return batches if isinstance(data, Arrays) else dataclasses.replace(batches, cardinality=dataset.cardinality())


def repeated_chunks(chunks: tf.data.Dataset, epochs: int, pool: int, seed: tf.Tensor | None) -> tf.data.Dataset:
    """Returns the epochs of a stream, shuffled within pools of `pool` examples.

    A shuffle buffer of single examples would halve the reading speed.
    """
    if seed is None:
        return chunks.repeat(epochs or None)

    def shuffle(number: tf.Tensor, examples: Any) -> Any:
        order = tf.range(count_of(examples))
        order = tf.random.experimental.stateless_shuffle(order, seed=tf.stack([seed, number]))
        return gather_rows(examples, order)

    # Pools are numbered through all epochs, because each pool needs an order of its own.
    return (
        chunks.rebatch(pool)
        .repeat(epochs or None)
        .map(no_autograph(lambda *examples: examples))
        .enumerate()
        .map(no_autograph(shuffle))
    )


def _signal_end(dataset: tf.data.Dataset, ended: threading.Event) -> tf.data.Dataset:
    """Returns an empty dataset that sets the event when it is read.

    OutOfRangeError does not prove the end of the input: an iterator also raises it after a cancelled call.
    """

    def signal(number: Any) -> Any:
        ended.set()
        return number

    signalled = tf.data.Dataset.range(1).map(no_autograph(lambda number: tf.numpy_function(signal, [number], tf.int64)))
    return signalled.flat_map(no_autograph(lambda _: dataset.take(0)))


def _padded(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset that repeats its first batch after its end, as a batch that stands for no examples."""
    return _weighted(dataset, 1.0).concatenate(_weighted(dataset.take(1).cache().repeat(), 0.0))


def _weighted(dataset: tf.data.Dataset, weight: float) -> tf.data.Dataset:
    # A function that adds the weight would take longer than a small batch.
    return tf.data.Dataset.zip((dataset, tf.data.Dataset.from_tensors(tf.constant(weight)).repeat()))


def derived_seed(*parts: object) -> int:
    """Returns a seed of 31 bits that depends on the parts alone."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") >> 1


def _dataset(data: Any) -> tuple[tf.data.Dataset, Callable[[tf.data.Dataset], tf.data.Dataset], dict[Any, Any]]:
    """Returns the dataset to shuffle and batch, a function that completes its batches, and the feeds.

    For Arrays the dataset holds indices, and the function gathers whole batches: single examples take three times as
    long.  The arrays are fed through placeholders, because constants would be copied into the graph (2 GB at most).
    """
    if isinstance(data, tf.data.Dataset):
        try:
            return data.take(-1), lambda batches: batches, {}  # map() would make ragged tensors dense
        except (RuntimeError, ValueError):  # TensorFlow raises them for a dataset of another graph
            raise ModelError("data() must make a new tf.data.Dataset in every call: create it inside data().") from None
    if not isinstance(data, Arrays):
        raise wrong_data(data)
    arrays = (data.features, data.labels)
    placeholders = tf.nest.map_structure(lambda array: v1.placeholder(array.dtype, array.shape), arrays)
    array_feeds = dict(zip(tf.nest.flatten(placeholders), tf.nest.flatten(arrays), strict=True))

    return tf.data.Dataset.range(len(data)), functools.partial(_gathered, arrays=placeholders), array_feeds


def _gathered(batches: tf.data.Dataset, arrays: Any) -> tf.data.Dataset:
    """Returns the rows of arrays, whose numbers are in batches.

    It is `map` whose function runs in the thread that asks for a batch: handing a small one over takes longer than the
    gathering itself.
    """
    flat = tf.nest.flatten(arrays)

    def gather(rows: tf.Tensor, *of: tf.Tensor) -> list[tf.Tensor]:
        return [tf.gather(array, rows) for array in of]

    specs = [batches.element_spec, *(tf.TensorSpec(array.shape, array.dtype) for array in flat)]
    function = tf.function(gather, autograph=False).get_concrete_function(*specs)
    found = function.structured_outputs
    variant = tf.raw_ops.MapDataset(
        input_dataset=tf.data.experimental.to_variant(batches),
        other_arguments=flat,
        f=function,
        output_types=[one.dtype for one in found],
        output_shapes=[one.shape for one in found],
        use_inter_op_parallelism=False,
        preserve_cardinality=True,
    )
    elements = [tf.TensorSpec(one.shape, one.dtype) for one in found]
    return tf.data.experimental.from_variant(variant, tf.nest.pack_sequence_as(arrays, elements))


def _buffer(data: Any, shard: DataShard, shuffle_buffer: int) -> Any:
    """Returns the places of the shuffle buffer, which TensorFlow makes at once: not more than could ever be filled."""
    if isinstance(data, Arrays):
        return min(shuffle_buffer, max(1, -(-len(data) // shard.count)))
    limit = memory_limit()
    most = shuffle_buffer if limit is None else min(shuffle_buffer, int(limit) // _LEAST_BYTES)
    count = data.cardinality()
    return tf.where(count < 0, tf.constant(most, tf.int64), tf.clip_by_value(count, 1, most))


def batches_of(
    dataset: tf.data.Dataset,
    array_feeds: dict[Any, Any],
    seed: tf.Tensor | None,
    shared_name: str | None = None,
    ended: threading.Event | None = None,
) -> Batches:
    """Returns the batches of a dataset.

    Args:
      dataset: elements ((features, labels), weight) or ((features, labels), weight, progress).
      array_feeds: feeds of the placeholders that the dataset reads.
      seed: placeholder of the shuffle seed, or None.
      shared_name: makes the iterator a resource of the server, which outlives a session that lost a ps.
      ended: set when all input has been read.
    """
    iterator = v1.data.make_initializable_iterator(_without_autotune(dataset), shared_name)
    return _get_next(iterator, array_feeds, seed, ended)


def _without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread costs more than it gains on such short pipelines
    with warnings.catch_warnings():  # that options set by operations are not seen; a user sets them in Python
        warnings.simplefilter("ignore", UserWarning)
        own = dataset.options().threading.private_threadpool_size
    options.threading.private_threadpool_size = own or input_threads()
    return dataset.with_options(options)


def input_threads() -> int:
    """Returns the number of threads that run the functions of a replica's input.

    They are this process's share of the cores; TensorFlow would take all cores in each process.  Without autotuning,
    AUTOTUNE stands for as many parallel calls, 16 at most.
    """
    given = os.environ.get("TF_NUM_INTEROP_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else available_cores()


def _get_next(
    iterator: Any, array_feeds: dict[Any, Any], seed: tf.Tensor | None, ended: threading.Event | None
) -> Batches:
    element, weight, *rest = iterator.get_next()
    if not isinstance(element, tuple) or len(element) != 2:
        raise ModelError("data() gives elements that are not (features, labels) pairs: make each element such a pair.")
    features, labels = element
    remember_inputs(features, labels)
    size = tf.cast(count_of(labels), tf.float32)
    progress = rest[0] if rest else None
    initializer, examples = iterator.initializer, size * weight
    return Batches(features, labels, examples, initializer, weight.op, iterator, array_feeds, seed, progress, ended)
