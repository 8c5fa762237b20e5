"""Corrected losses estimate the softmax over all items; draws have the probabilities that they name.

Statistical tests fail with a probability below 1e-4 if the code is right (4 standard errors), for fixed seeds never.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import ModelError, embeddings, negatives
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from ps_train.modeling.tables.row_order import positions_of
from tests.support.long import long

ITEMS, DIMENSION, BATCH, BATCHES = 40, 4, 16, 1500
RANDOM = np.random.default_rng(8)
VECTORS = RANDOM.normal(0, 0.8, (ITEMS, DIMENSION)).astype(np.float32)
SHARES = 1 / np.arange(1, ITEMS + 1) / np.sum(1 / np.arange(1, ITEMS + 1))
SIGMAS = 4.0


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def z_scores(samples, expected):
    """Deviation of the mean of independent samples [n, ...] from its expected value, in standard errors."""
    return (samples.mean(0) - expected) / (samples.std(0, ddof=1) / np.sqrt(len(samples)))


def partitions(queries, items):
    """Sum of the exponentials of all items, and its gradient for each query, by numpy."""
    weights = np.exp(queries.astype(float) @ items.T)
    return weights.sum(1), weights @ items


class InBatch:
    """Losses of batches whose items are drawn by SHARES."""

    def __init__(self, **options):
        self.queries = v1.placeholder(tf.float32, [None, DIMENSION])
        self.ids = v1.placeholder(tf.int64, [None])
        rows = tf.gather(tf.constant(VECTORS), self.ids)
        if options.get("correct", True):
            options["log_q"] = tf.gather(tf.constant(np.log(SHARES), tf.float32), self.ids)
        losses = negatives.in_batch(self.queries, rows, self.ids, **options)
        # The loss is log Z - s, so Z and its gradient follow from it.
        self.z = tf.exp(losses + tf.reduce_sum(self.queries * rows, 1))
        self.of_query = tf.gradients(self.z, self.queries)[0]

    def estimates(self, batches=BATCHES):
        random = np.random.default_rng(1)
        queries = random.normal(0, 0.8, (BATCH, DIMENSION)).astype(np.float32)
        z, slopes = partitions(queries, VECTORS)
        found = []
        with v1.Session() as session:
            for _ in range(batches):
                ids = random.choice(ITEMS, BATCH, p=SHARES)
                found.append(session.run((self.z, self.of_query), {self.queries: queries, self.ids: ids}))
        return np.array([a for a, _ in found]), np.array([b for _, b in found]), z, slopes


def test_the_corrected_in_batch_loss_and_its_gradient_are_those_of_the_full_softmax_in_expectation():
    z, slopes, full_z, full_slopes = InBatch().estimates()
    assert np.abs(z_scores(z, full_z)).max() < SIGMAS
    assert np.abs(z_scores(slopes, full_slopes)).max() < SIGMAS
    assert (z.std(0) / np.sqrt(BATCHES) / full_z).max() < 0.04  # so that an error of a tenth would be seen


def test_the_loss_by_exact_use_counts_is_that_of_the_full_softmax_in_expectation():
    random = np.random.default_rng(11)
    present = 1 - (1 - SHARES) ** BATCH
    table = embeddings.Table("items", DIMENSION, capacity=100)
    fed = v1.placeholder(tf.int64, [None])
    queries = v1.placeholder(tf.float32, [None, DIMENSION])
    rows = tf.gather(tf.constant(VECTORS), fed)
    losses = negatives.in_batch(queries, rows, fed, counts_of=table)
    z = tf.exp(losses + tf.reduce_sum(queries * rows, 1))
    variables = {variable.op.name: variable for variable in v1.global_variables()}
    used, keys = np.zeros((table.total, 3), np.int64), np.zeros((table.total, 1), np.int64)
    updates = 1_000_000  # so many that the counts have no error of their own
    used[:ITEMS] = np.stack([np.round(present * updates), np.full(ITEMS, updates), np.ones(ITEMS)], 1)
    keys[:ITEMS, 0] = np.arange(ITEMS)
    asked = random.normal(0, 0.8, (BATCH, DIMENSION)).astype(np.float32)
    found = []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for name, value in (("used", used), ("keys", keys), ("clock", np.full(1, updates, np.int64))):
            variables[f"items/{name}"].load(value, session)
        session.run(v1.get_collection(AFTER_RESTORE))
        for _ in range(BATCHES):
            found.append(session.run(z, {queries: asked, fed: random.choice(ITEMS, BATCH, p=SHARES)}))
    assert np.abs(z_scores(np.array(found), partitions(asked, VECTORS)[0])).max() < SIGMAS


def test_without_the_correction_the_loss_is_the_softmax_of_the_batch():
    ids, queries = np.array([3, 5, 3, 7]), RANDOM.normal(size=(4, DIMENSION)).astype(np.float32)
    logits = queries @ VECTORS[ids].T / 0.5
    kept = np.where((ids[:, None] == ids) & ~np.eye(4, dtype=bool), -np.inf, logits)
    expected = np.log(np.exp(kept).sum(1)) - np.diag(logits)
    rows = tf.constant(VECTORS[ids])
    losses = negatives.in_batch(tf.constant(queries), rows, tf.constant(ids), correct=False, temperature=0.5)
    hard = negatives.in_batch(tf.constant(queries), rows, tf.constant(ids), False, 0.5, hardest=1)
    own = ids[:, None] == ids
    hardest = np.where(own, -np.inf, logits).max(1)
    with v1.Session() as session:
        np.testing.assert_allclose(session.run(losses), expected, rtol=1e-5)
        np.testing.assert_allclose(
            session.run(hard), np.logaddexp(np.diag(logits), hardest) - np.diag(logits), rtol=1e-4
        )


def test_a_batch_of_one_item_has_no_loss_and_a_finite_gradient():
    queries = tf.constant(VECTORS[:2])
    losses = negatives.in_batch(queries, queries, tf.constant(["a", "a"]), log_q=tf.zeros(2))
    with v1.Session() as session:
        loss, slope = session.run((losses, tf.gradients(losses, queries)[0]))
    assert not loss.any() and not slope.any()


@pytest.mark.parametrize("by", [long("uniform"), long("log_uniform"), "frequency"])
def test_drawn_ids_have_their_probabilities_and_the_loss_is_that_of_the_full_softmax_in_expectation(by):
    counts = np.round(1000 * SHARES[::-1])
    counts[5] = 0
    table = embeddings.Table("items", DIMENSION, rows=ITEMS, initializer=VECTORS)
    drawn = negatives.sample(table, 64, by, counts if by == "frequency" else None)
    query = tf.constant(VECTORS[:1])
    own = tf.constant([9], tf.int64)
    positives = tf.reduce_sum(query * VECTORS[9], 1)
    loss = negatives.sampled_softmax(positives, query @ tf.transpose(drawn.rows), own, drawn.ids, drawn.log_q)
    z = tf.exp(loss + positives)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        found = [session.run((drawn, z)) for _ in range(BATCHES // 2)]
        stored = session.run(v1.global_variables()[0])
    np.testing.assert_array_equal(stored[positions_of(np.arange(ITEMS), ITEMS)], VECTORS)
    shares = {
        "uniform": np.full(ITEMS, 1 / ITEMS),
        "log_uniform": np.log1p(1 / np.arange(1, ITEMS + 1)) / np.log(ITEMS + 1),
        "frequency": counts / counts.sum(),
    }[by]
    ids = np.concatenate([one.ids for one, _ in found])
    np.testing.assert_array_equal(found[0][0].rows, VECTORS[found[0][0].ids])
    np.testing.assert_allclose(np.exp(found[0][0].log_q), shares[found[0][0].ids], rtol=1e-4)
    expected = shares * len(ids)
    deviations = np.bincount(ids, minlength=ITEMS) - expected
    assert np.all(np.abs(deviations) <= (SIGMAS + 0.5) * np.sqrt(expected))
    kept = shares > 0  # the softmax over the items that can be drawn
    full = np.exp(VECTORS[0].astype(float) @ VECTORS[kept].T).sum()
    assert abs(z_scores(np.array([z for _, z in found]), np.array([full])).item()) < SIGMAS


_BUCKETS = 9973
"""So many that the few items share none."""


def stream(batches, rate):
    """Frequencies as the module describes them, example by example of each bucket, in numpy."""
    gap, last, seen = {}, {}, 0
    for ids in batches:
        seen += len(ids)
        found = {}
        for item in set(ids.tolist()):
            times = int((ids == item).sum())
            mean = (seen - last.get(item, 0)) / times
            weight = 1 - (1 - rate) ** times if item in gap else 1.0
            found[item] = gap.get(item, 0.0) + weight * (mean - gap.get(item, 0.0))
            last[item] = seen
        gap |= found
        yield np.array([1 / found[item] for item in ids.tolist()])


def test_frequencies_of_a_stream_are_those_of_numpy_and_near_the_shares():
    random = np.random.default_rng(2)
    batches = [random.choice(ITEMS, BATCH, p=SHARES) for _ in range(1500)]
    fed = v1.placeholder(tf.int64, [None])
    logs = negatives.log_frequencies(fed, buckets=_BUCKETS)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    assert not v1.trainable_variables()
    found, gaps = [], {item: [] for item in range(ITEMS)}
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for ids in batches:
            found.append(np.exp(session.run((logs, updates), {fed: ids})[0]))
    for number, expected in enumerate(stream(batches, 0.05)):
        np.testing.assert_allclose(found[number], expected, rtol=1e-3)
        for item, share in zip(batches[number], expected, strict=True):
            gaps[item].append(1 / share)
    # The mean gap of an item is 1 / share, and so the correction is right on average, also for items of every batch.
    means = np.array([np.mean(gaps[item][len(gaps[item]) // 5 :]) for item in range(ITEMS)]) * SHARES
    np.testing.assert_allclose(means, 1.0, atol=0.2)
    assert abs(means.mean() - 1) < 0.03


@pytest.mark.parametrize("by", ["frequency", long("uniform")])
def test_buckets_of_a_hashed_table_are_drawn_and_a_string_is_known_by_its_bucket(by):
    buckets = 12
    counts = 1.0 + np.arange(buckets) if by == "frequency" else None
    table = embeddings.Table("words", 2, hash_buckets=buckets)
    words = tf.constant([["apple", "pear"], ["", "\u00e4\u00f6"]])
    keys, rows = negatives.keys_of(table, words), embeddings.lookup(table, words)
    drawn = negatives.sample(table, 3000, by, counts)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        of_words, of_rows, found = session.run((keys, rows, drawn))
    assert of_words.shape == (2, 2) and of_words.dtype == np.int64
    by_bucket = dict(zip(found.ids.tolist(), found.rows.tolist(), strict=True))
    shares = np.full(buckets, 1 / buckets) if counts is None else counts / counts.sum()
    np.testing.assert_allclose(np.exp(found.log_q), shares[found.ids], rtol=1e-5)
    expected = shares * 3000
    assert np.all(np.abs(np.bincount(found.ids, minlength=buckets) - expected) <= (SIGMAS + 0.5) * np.sqrt(expected))
    for key, row in zip(of_words.ravel().tolist(), of_rows.reshape(-1, 2).tolist(), strict=True):
        assert by_bucket[key] == row


def test_strings_have_frequencies_too():
    logs = negatives.log_frequencies(tf.constant(["a", "b", "a", "a"]))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_allclose(np.exp(session.run(logs)), [3 / 4, 1 / 4, 3 / 4, 3 / 4], rtol=1e-6)


TWO = np.zeros([2, 2], np.float32), np.zeros([2, 2], np.float32), np.zeros([2], np.int64)
ROWS = {"rows": 10, "dimension": 2}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: negatives.sample("t", 3), "no dimension"),
        (lambda: negatives.sample(embeddings.Table("t", 2, rows=9), 3, rows=9), "leave the latter out"),
        (lambda: negatives.sample("t", 0, **ROWS), "n=0"),
        (lambda: negatives.sample("t", 3, "log_uniform", hash_buckets=10, dimension=2), "by=log_uniform"),
        (lambda: negatives.sample("t", 3, rows=[3, 4], dimension=2), "a list of sizes"),
        (lambda: negatives.keys_of(embeddings.Table("t", 2, rows=[3, 4]), [1, 2]), "a list of sizes"),
        (lambda: negatives.sampled_softmax(tf.zeros(2), tf.zeros([2, 3]), ["a", "b"], [1, 2, 3]), "keys_of"),
        (lambda: negatives.sample("t", 3, "frequency", **ROWS), "without counts"),
        (lambda: negatives.sample("t", 3, counts=[1], **ROWS), "with counts"),
        (lambda: negatives.sample("t", 3, "often", **ROWS), "by=often"),
        (lambda: negatives.sample("t", 3, "frequency", [1, 2], **ROWS), "give 10 numbers"),
        (lambda: negatives.sample("t", 3, "frequency", [0] * 10, **ROWS), "not all 0"),
        (lambda: negatives.log_frequencies(tf.constant([0.5])), "float32"),
        (lambda: negatives.log_frequencies(tf.constant([1]), rate=0.0), "rate=0.0"),
        (lambda: negatives.in_batch(*TWO, False, 0.0), "temper"),
        (lambda: negatives.in_batch(*TWO, counts_of=embeddings.Table("t", 2, rows=9)), "open vocabulary"),
        (lambda: negatives.sampled_softmax(*[tf.zeros(s) for s in ([2], [2, 3], [2], [3])], hardest=0), "hardest=0"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(wrong, said):
    with pytest.raises(ModelError, match=said):
        wrong()
