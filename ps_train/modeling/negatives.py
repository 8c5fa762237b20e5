"""Negatives for retrieval: the other items of a batch, or items drawn from a table; and the softmax over them.

    def loss(self, outputs, labels):
        queries, items, ids = outputs
        return tf.reduce_mean(negatives.in_batch(queries, items, ids))

    drawn = negatives.sample(items_table, 100)                  # drawn.ids, drawn.rows, drawn.log_q
    scores, own = queries @ tf.transpose(drawn.rows), negatives.keys_of(items_table, ids)
    losses = negatives.sampled_softmax(positives, scores, own, drawn.ids, drawn.log_q)

An item with the probability q is expected n q times among n negatives, so each negative counts 1 / (n q) times.  With
right probabilities the expected sum of their exponentials is that of the softmax over all items (Bengio and Senecal
2003, "Quick Training of Probabilistic Neural Nets by Importance Sampling").  The item of the example itself was not
drawn, and counts once: it gets no correction (Khrylchenko et al. 2025, "Correcting the LogQ Correction").
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.modeling.tables.id_encoding import digests, encode_ids
from ps_train.modeling.tables.lookups import Declaration, rows_of_keys
from ps_train.modeling.tables.row_index import row_indices, splitmix64
from ps_train.modeling.tables.row_source import batches_per_update, draw_keys, uses_of
from ps_train.modeling.tables.table import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Sample", "in_batch", "keys_of", "log_frequencies", "sample", "sampled_softmax"]

_NEVER = -1e30
"""Logit of an item that is left out; finite, because a loss of infinities would have no gradient."""

_MAX_COUNTS = 4_000_000
"""Counts are constants of the graph, 12 bytes each."""

SAMPLERS = ("uniform", "frequency", "log_uniform")


class Sample(NamedTuple):
    """Items drawn from a table, with replacement.

    Attributes:
      ids: int64 [n], the drawn ids as `keys_of` gives them.
      rows: float32 [n, dimension].
      log_q: float32 [n], logarithm of the probability with which each of the n draws gives that id.
    """

    ids: tf.Tensor
    rows: tf.Tensor
    log_q: tf.Tensor


def sampled_softmax(
    positives: tf.Tensor,
    negatives: tf.Tensor,
    ids: tf.Tensor,
    negative_ids: tf.Tensor,
    log_q: tf.Tensor | None = None,
    hardest: int | None = None,
) -> tf.Tensor:
    """Returns the softmax cross-entropy of each example's own item against negatives, float32 [batch].

    A negative that is the example's own item is left out.

    Args:
      positives: logits of the examples' own items, [batch].
      negatives: logits of the negatives, [batch, n].
      ids: the examples' own items, whole numbers or strings [batch]; for `Sample.ids` as `keys_of` gives them.
      negative_ids: the negatives, [n].
      log_q: logarithm of the probability of each negative in one draw, [n]; None: no correction.
      hardest: uses only so many negatives of each example, those with the highest corrected logits.  The loss is then
        no estimate of the softmax over all items.
    """
    positives, negatives = tf.cast(positives, tf.float32), tf.cast(negatives, tf.float32)
    ids, negative_ids = (_wide(tf.convert_to_tensor(some)) for some in (ids, negative_ids))
    if ids.dtype != negative_ids.dtype:
        raise ModelError(
            f"sampled_softmax has ids of {ids.dtype.name} and negative_ids of {negative_ids.dtype.name}: give both as "
            "negatives.keys_of(table, ids) does."
        )
    own = tf.equal(ids[:, tf.newaxis], negative_ids[tf.newaxis, :])
    count = tf.cast(tf.shape(negatives)[1], tf.float32)
    return _softmax(positives, negatives, own, count, log_q, hardest)


def in_batch(
    queries: tf.Tensor,
    items: tf.Tensor,
    ids: tf.Tensor,
    correct: bool = True,
    temperature: float = 1.0,
    log_q: tf.Tensor | None = None,
    hardest: int | None = None,
    counts_of: Table | None = None,
) -> tf.Tensor:
    """Returns the loss of each example, whose negatives are the other items of the batch, float32 [batch].

    Items of a batch are as frequent as in the data, so without the correction frequent items are pushed away too often
    (Yi et al. 2019, "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations").

    Args:
      queries: vectors of the examples' queries, [batch, n].
      items: vectors of the examples' items, [batch, n].
      ids: ids of the items, whole numbers or strings [batch]; an item that is in the batch twice is no negative of
        itself.
      correct: True corrects by `log_q`, or by `log_frequencies(ids)` if that is None.
      temperature: divides the products of vectors.
      log_q: logarithm of each item's share of the examples, [batch], if it is known.
      hardest: see `sampled_softmax`.
      counts_of: the open vocabulary of the ids, whose exact use counts replace the estimated frequencies.  It counts
        the updates that use an id, so an item that is in a batch several times is one negative, divided by the
        probability that a batch has it (Horvitz and Thompson 1952).  Under `sync` an update is counted as one of the
        workers at the start, without backup workers.
    """
    if not temperature > 0:
        raise ModelError(f"in_batch has temperature={temperature}: use a number above 0.")
    if counts_of is not None and (not counts_of.is_open or log_q is not None):
        raise ModelError(
            f"in_batch has counts_of={counts_of.name}: it is an open vocabulary (capacity), and goes without log_q."
        )
    if correct and log_q is None and counts_of is None:
        log_q = log_frequencies(ids)
    logits = tf.cast(tf.matmul(queries, items, transpose_b=True), tf.float32) / temperature
    size = tf.shape(logits)[0]
    same = tf.equal(ids[:, tf.newaxis], ids[tf.newaxis, :])
    others = tf.cast(tf.maximum(size - 1, 1), tf.float32)
    if correct and counts_of is not None:
        share = others / tf.cast(size * batches_per_update(), tf.float32)
        log_q = _log_presence(counts_of, ids, share) - tf.math.log(others)  # `_softmax` adds the number of draws
        before = tf.linalg.band_part(tf.cast(same, tf.int32), -1, 0) - tf.eye(size, dtype=tf.int32)
        same |= tf.reduce_any(before > 0, 1)[tf.newaxis, :]  # an item is one negative, at its first place
    return _softmax(tf.linalg.diag_part(logits), logits, same, others, log_q if correct else None, hardest)


def _softmax(
    positives: tf.Tensor,
    negatives: tf.Tensor,
    own: tf.Tensor,
    count: tf.Tensor,
    log_q: tf.Tensor | None,
    hardest: int | None,
) -> tf.Tensor:
    """Returns the losses, [batch].

    Args:
      positives: [batch].
      negatives: [batch, n].
      own: bool [batch, n], negatives that are left out.
      count: number of draws of each example.
      log_q: [n].
      hardest: see `sampled_softmax`.
    """
    if log_q is not None:
        negatives -= (tf.math.log(count) + tf.stop_gradient(tf.cast(log_q, tf.float32)))[tf.newaxis, :]
    negatives = tf.where(own, tf.constant(_NEVER, tf.float32), negatives)
    if hardest is not None:
        if hardest < 1:
            raise ModelError(f"hardest={hardest} is not valid: use a whole number of at least 1.")
        negatives = tf.math.top_k(negatives, tf.minimum(hardest, tf.shape(negatives)[1])).values
    everything = tf.concat([positives[:, tf.newaxis], negatives], 1)
    return tf.reduce_logsumexp(everything, 1) - positives


def log_frequencies(
    ids: tf.Tensor, buckets: int = 1 << 14, rate: float = 0.05, name: str = "item_frequencies"
) -> tf.Tensor:
    """Returns the logarithm of each item's estimated share of all examples, float32 [batch].  For training only.

    The share is 1 over the mean number of examples from one occurrence of the item to the next.  Its moving average is
    kept for hashed ids (Yi et al. 2019, algorithm 2, with examples instead of batches, so that an item may occur in
    every batch, and several times).  It is state that the model assigns
    (help: models#state-and-batch-norm): checkpoints have it, and it follows the batches of worker 0.  Every step pulls
    and pushes its 12 bytes a bucket.

    Args:
      ids: whole numbers or strings [batch].
      buckets: number of hashed ids, best several times that of the frequent items: the items of a bucket count as one.
      rate: weight of an item's last occurrence in its average.
      name: variable scope of `gap`, `last` and `seen`.  A model that estimates the frequencies of two kinds of ids in
        one call needs two names.
    """
    if buckets < 1 or not 0 < rate <= 1:
        raise ModelError(f"log_frequencies has buckets={buckets} and rate={rate}: use at least 1, and 0 to 1.")
    zeros = v1.zeros_initializer()
    with v1.variable_scope(name):
        gap = v1.get_variable("gap", [buckets], tf.float32, zeros, trainable=False)
        last = v1.get_variable("last", [buckets], tf.int64, zeros, trainable=False)
        seen = v1.get_variable("seen", [], tf.int64, zeros, trainable=False)
    # Each is read once, because a second read could follow the assignment.
    old_gap, old_last, old_seen = (tf.identity(variable) for variable in (gap, last, seen))
    places = _buckets_of(ids, buckets)
    bucket, index = tf.unique(places)
    times = tf.math.unsorted_segment_sum(tf.ones_like(index, tf.float32), index, tf.size(bucket))
    now = old_seen + tf.size(places, tf.int64)
    before = tf.cast(tf.gather(old_gap, bucket), tf.float32)
    mean = tf.cast(now - tf.gather(old_last, bucket), tf.float32) / times
    weight = tf.where(before > 0, 1 - tf.pow(1 - rate, times), tf.ones_like(times))
    after = before + weight * (mean - before)
    updates = [
        v1.assign(gap, tf.tensor_scatter_nd_update(old_gap, bucket[:, tf.newaxis], tf.cast(after, old_gap.dtype))),
        v1.assign(last, tf.tensor_scatter_nd_update(old_last, bucket[:, tf.newaxis], tf.fill(tf.shape(bucket), now))),
        v1.assign(seen, now),
    ]
    for update in updates:
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return tf.stop_gradient(-tf.math.log(tf.gather(after, index)))


def _log_presence(table: Table, ids: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Returns the logarithm of the probability that each item is among some examples, float32 [batch].

    An update uses an item as often as updates since its row was assigned have done.  This one is a use too, so the
    number of uses before it is that of the gaps between uses.

    Args:
      table: the open vocabulary.
      ids: [batch].
      share: number of the examples over that of the examples of an update.
    """
    uses, updates = tf.unstack(uses_of(table, encode_ids(table, ids)), axis=1)
    gaps = tf.cast(tf.maximum(uses - (table.admit_after - 1), 1), tf.float32)
    of_update = tf.minimum(gaps / tf.cast(updates, tf.float32), 1.0)
    return tf.stop_gradient(tf.math.log(-tf.math.expm1(share * tf.math.log1p(-of_update))))


def keys_of(table: Table, ids: Any) -> tf.Tensor:
    """Returns ids as `Sample.ids` has them, int64 in the shape of the ids.

    Whole numbers are their own keys, but in a table with `hash_buckets` the key is the number of the bucket.  A string
    in an open vocabulary has a hash of 64 bits.

    Args:
      table: its kind decides what a key is.
      ids: whole numbers or strings of any shape.

    Raises:
      ModelError: table and ids do not fit together.
    """
    ids = tf.convert_to_tensor(ids)
    flat = tf.reshape(ids, [-1])
    if table.is_open:
        keys = digests(encode_ids(table, flat))
    elif table.by_field:
        raise _only_one_size(table)
    else:
        keys = row_indices(table, flat, lambda index: (index[:, 0], None))
    return tf.reshape(keys, tf.shape(ids))


def _wide(ids: tf.Tensor) -> tf.Tensor:
    return tf.cast(ids, tf.int64) if ids.dtype.is_integer else ids


def _only_one_size(table: Table) -> ModelError:
    return ModelError(
        f"sample of table {table.name}: a table with a list of sizes has an id in each field; declare a table of the "
        "items with rows, hash_buckets or capacity, or take the other items of the batch as negatives (in_batch)."
    )


def _buckets_of(ids: tf.Tensor, buckets: int) -> tf.Tensor:
    if ids.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(ids, buckets)
    if not ids.dtype.is_integer:
        raise ModelError(f"log_frequencies is given ids of {ids.dtype.name}: use whole numbers or strings.")
    return splitmix64(tf.cast(ids, tf.int64)) % buckets


def sample(
    table: Table | str, n: int, by: str = "uniform", counts: Any = None, **declaration: Unpack[Declaration]
) -> Sample:
    """Draws ids of a table with replacement, and looks up their rows: only these travel.  They learn like others.

    Args:
      table: a Table with one size; or the name of one that the keyword arguments declare (`embeddings.lookup`).  With
        `hash_buckets` an item is a bucket.  Look strings up in an open vocabulary before they are drawn.
      n: number of draws.  In an open vocabulary each ps draws among its own ids that have rows: at least one, and none
        while it has none of them.
      by: "uniform"; "frequency": as in `counts`, or in an open vocabulary by the updates that have used an id, draws
        included; "log_uniform", for `rows` with ids in the order of falling frequency: id k has a probability that
        falls as 1 / (k + 1) (Zipf's law).
      counts: for "frequency" without an open vocabulary: how often each id or bucket occurs, numbers [rows], at most
        4,000,000.
      **declaration: declares the table of a name.

    Raises:
      ModelError: the table or the arguments do not fit together.
    """
    if isinstance(table, str):
        if declaration.get("dimension") is None:
            raise ModelError(f"sample of table {table} has no dimension: declare it, or pass an embeddings.Table.")
        table = Table(table, **declaration)
    elif declaration:
        raise ModelError(f"sample of table {table.name} is given a Table and its declaration: leave the latter out.")
    if not isinstance(n, int) or n < 1:
        raise ModelError(f"sample of table {table.name} has n={n!r}: use a whole number of at least 1.")
    if table.by_field:
        raise _only_one_size(table)
    samplers = SAMPLERS if table.rows is not None else SAMPLERS[:2]
    with_counts = by == "frequency" and not table.is_open
    if by not in samplers or with_counts != (counts is not None):
        raise ModelError(
            f"sample of table {table.name} has by={by} {'without' if counts is None else 'with'} counts: use one of "
            f"{', '.join(samplers)}, and counts with frequency and without capacity alone."
        )
    if not table.is_open:
        ids, log_q = _draw(table, n, by, counts)
        return Sample(ids, rows_of_keys(table, ids), log_q)
    keys, log_q = draw_keys(table, n, by == "frequency")
    return Sample(digests(keys), rows_of_keys(table, keys), log_q)


def _draw(table: Table, n: int, by: str, counts: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns ids, int64 [n], and the logarithms of their probabilities, float32 [n]."""
    rows = int(table.sizes[0])
    if by == "uniform":
        return v1.random_uniform([n], 0, rows, tf.int64), tf.fill([n], -math.log(rows))
    number = v1.random_uniform([n], dtype=tf.float64)
    if by == "log_uniform":
        ids = tf.cast(tf.exp(number * math.log(rows + 1)), tf.int64) - 1
        ids = tf.clip_by_value(ids, 0, rows - 1)
        place = tf.cast(ids, tf.float64) + 1
        share = tf.math.log1p(1 / place) / math.log(rows + 1)
        return ids, tf.cast(tf.math.log(share), tf.float32)
    given = _checked_counts(table, counts, rows)
    ends = np.cumsum(given / given.sum())
    last = np.flatnonzero(given)[-1]  # rounding may put the last end below a number that is drawn
    ids = tf.minimum(tf.searchsorted(tf.constant(ends), number, side="right", out_type=tf.int64), int(last))
    with np.errstate(divide="ignore"):
        log_q = np.log(given / given.sum()).astype(np.float32)
    return ids, tf.gather(tf.constant(log_q), ids)


def _checked_counts(table: Table, counts: Any, rows: int) -> np.ndarray[Any, Any]:
    given = np.asarray(counts, np.float64)
    if rows > _MAX_COUNTS:
        raise ModelError(
            f"sample of table {table.name} has counts for {rows} rows: use at most {_MAX_COUNTS}, or by=log_uniform."
        )
    if given.shape != (rows,) or not np.all(given >= 0) or not 0 < given.sum() < math.inf:
        raise ModelError(
            f"sample of table {table.name} has counts of shape {given.shape}: give {rows} numbers of at least 0, not "
            "all 0."
        )
    return given
