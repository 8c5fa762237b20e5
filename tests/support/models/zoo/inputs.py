"""Features of all structures and kinds, looked up, and gradients of some rows."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.models.zoo.shape import COUNT, Shape, dense, labels, normal, weights

WORDS = np.array(["rome", "oslo", "lima", "unknown"])


def several(random):
    return {
        "numbers": normal(random),
        "words": WORDS[random.integers(0, 4, [COUNT, 2])],
        "flags": random.integers(0, 2, COUNT).astype(bool),
        "ids": random.integers(0, 6, [COUNT, 3]).astype(np.int32),
        "wide": random.normal(size=(COUNT, 1)),
    }


def of_a_dict(x):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(["rome", "oslo", "lima"]), tf.constant([2, 0, 1], tf.int64)), 3
    )
    rows = tf.nn.embedding_lookup(weights("cities", [4, 2]), table.lookup(x["words"]))
    hashed = tf.nn.embedding_lookup(weights("hashed", [5, 2]), tf.strings.to_hash_bucket_fast(x["words"], 5))
    found = tf.concat([x["numbers"], tf.reduce_sum(rows + hashed, 1), tf.cast(x["wide"], tf.float32)], 1)
    return tf.where(x["flags"][:, tf.newaxis], dense(found, 1, "yes"), dense(found, 1, "no"))


def of_ids(random):
    return random.integers(0, 6, [COUNT, 5]).astype(np.int64)


def looked_up(ids):
    """Every row more than once."""
    rows = tf.nn.embedding_lookup(weights("rows", [6, 3]), ids)
    again = tf.nn.embedding_lookup(weights("again", [6, 3]), tf.concat([ids, ids], 1), max_norm=0.5)
    return dense(tf.reduce_sum(rows, 1) + tf.reduce_mean(again, 1), 1)


def looked_up_sparsely(ids):
    count = tf.shape(ids, tf.int64)[0]
    places = tf.where(ids < 4)
    sparse = tf.SparseTensor(places, tf.gather_nd(ids, places), tf.stack([count, 5]))
    weight = tf.SparseTensor(places, tf.cast(tf.gather_nd(ids, places) + 1, tf.float32), tf.stack([count, 5]))
    first = v1.nn.safe_embedding_lookup_sparse(weights("first", [6, 2]), sparse, weight, combiner="sqrtn")
    second = v1.nn.embedding_lookup_sparse(
        weights("second", [6, 2]), v1.sparse_fill_empty_rows(sparse, tf.constant(0, tf.int64))[0], None, combiner="mean"
    )
    return dense(first + second, 1)


def gathered(x):
    """Parts of a variable by numbers, some of them twice, and all of it too."""
    w = weights("w", [4, 3, 2])
    places = tf.constant([[0, 1], [3, 2], [0, 1]])
    found = tf.gather_nd(w, places)
    return dense(x, 1) + tf.einsum("bi,ij,kj->b", x[:, :3], w[1], found)[:, tf.newaxis] + tf.reduce_mean(w)


def of_ragged():
    random = np.random.default_rng(8)
    rows = [random.integers(0, 7, random.integers(0, 5)).tolist() for _ in range(COUNT)]
    ragged = tf.ragged.constant(rows, dtype=tf.int64)
    return tf.data.Dataset.from_tensor_slices(({"ids": ragged, "numbers": normal(random)}, labels()))


def with_ragged(x):
    rows = tf.nn.embedding_lookup(weights("rows", [7, 2]), x["ids"])
    return dense(tf.concat([tf.reduce_sum(rows, 1), x["numbers"]], 1), 1)


def of_sparse():
    random = np.random.default_rng(8)
    places = np.argwhere(random.random([COUNT, 9]) < 0.3)
    sparse = tf.SparseTensor(places, random.normal(size=len(places)).astype(np.float32), [COUNT, 9])
    return tf.data.Dataset.from_tensor_slices((sparse, labels()))


def with_sparse(x):
    return tf.sparse.sparse_dense_matmul(x, weights("w", [9, 1])) + weights("b", [1])


def of_nested():
    random = np.random.default_rng(8)
    pairs = (normal(random, 2), {"inner": normal(random, 4), "word": WORDS[random.integers(0, 4, COUNT)]})
    return tf.data.Dataset.from_tensor_slices((pairs, labels()))


def with_nested(x):
    first, rest = x
    length = tf.cast(tf.strings.length(rest["word"]), tf.float32)[:, tf.newaxis]
    return dense(tf.concat([first, rest["inner"], length], 1), 1)


SHAPES = [
    Shape(of_a_dict, features=several, joined=True, optimizer=v1.train.AdagradOptimizer),
    Shape(looked_up, features=of_ids, joined=True),
    Shape(looked_up, features=of_ids, name="looked_up_sgd", optimizer=v1.train.GradientDescentOptimizer),
    Shape(looked_up_sparsely, features=of_ids, joined=True, optimizer=v1.train.AdagradOptimizer),
    Shape(gathered, joined=True),
    Shape(with_ragged, dataset=of_ragged, joined=True),
    Shape(with_sparse, dataset=of_sparse, joined=True),
    Shape(with_nested, dataset=of_nested, joined=True),
]
