"""Negatives in training: ids of an open vocabulary are drawn and counted on their ps, frequencies are estimated."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings, negatives
from ps_train.modeling.tables.row_source import batches_per_update, uses_of
from ps_train.models import two_tower
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long

IDS, DRAWS, CALLS = 120, 50, 200


class Drawing(Model):
    """A sum of looked up and drawn rows; ids are 1000 to 1119, the first ones more often."""

    def __init__(self, by: str = "frequency") -> None:
        self.by = by

    def data(self, split, data_dir):
        ids = 1000 + np.minimum(np.random.default_rng(3).geometric(0.03, 4000) - 1, IDS - 1)
        return Arrays(ids, np.zeros(4000, np.float32))

    def forward(self, features, training):
        table = embeddings.Table("items", 2, capacity=600, initializer=0.5)
        rows = embeddings.lookup(table, features)
        self.drawn = negatives.sample(table, DRAWS, self.by)
        self.uses = uses_of(table, tf.range(1000, 1000 + IDS, dtype=tf.int64)[:, tf.newaxis])
        return tf.reduce_mean(rows), tf.reduce_sum(self.drawn.rows)

    def loss(self, outputs, labels):
        return outputs[0] + 1e-3 * outputs[1]

    def metrics(self, outputs, labels):
        return {"drawn": v1.metrics.mean(self.drawn.log_q)}


@pytest.mark.parametrize("by", ["frequency", long("uniform")])
def test_ids_of_an_open_vocabulary_are_drawn_on_each_ps_with_the_probabilities_that_they_name(by: str) -> None:
    """Statistically: no count is more than 4.5 standard deviations off, which happens to right code in one of 1000."""
    model = Drawing(by)
    cluster = InProcessCluster(model, 2, 1, batch_size=20, steps_per_run="2", prefetch_pulls=True)
    drawn, uses_of_all = model.drawn, model.uses  # of the training graph, which was built last
    cluster.start()
    session = cluster.sessions[0]
    ids, log_q = session.run((drawn.ids, drawn.log_q))
    assert ids.size == log_q.size == 0  # before any id has a row, none is drawn
    cluster.train(40, run=2)
    values = cluster.values()
    assert len({piece.ps for piece in cluster.plan.slices if piece.variable == "items"}) == 2
    uses = values["items/used"][:, 0]
    used = dict(zip(values["items/keys"][uses > 0, 0].tolist(), uses[uses > 0].tolist(), strict=True))
    assert used.keys() <= set(range(1000, 1000 + IDS)) and len(used) > 60
    since, clock = values["items/used"][:, 2], values["items/clock"].max()
    assigned = dict(zip(values["items/keys"][uses > 0, 0].tolist(), since[uses > 0].tolist(), strict=True))
    expected_uses = [
        [used.get(one, 0), clock + 1 - assigned[one] if one in used else clock + 1] for one in range(1000, 1000 + IDS)
    ]
    np.testing.assert_array_equal(session.run(uses_of_all), expected_uses)
    found = [session.run((drawn.ids, drawn.log_q)) for _ in range(CALLS)]
    probability = dict(zip(*(np.concatenate(some).tolist() for some in zip(*found, strict=True)), strict=True))
    assert all(ids.size == DRAWS for ids, _ in found)
    counts = dict.fromkeys(used, 0)
    for one in np.concatenate([ids for ids, _ in found]).tolist():
        counts[one] += 1
    expected = {one: CALLS * DRAWS * np.exp(probability[one]) for one in probability}
    assert abs(sum(expected.values()) - CALLS * DRAWS) < 0.02 * CALLS * DRAWS  # a rare id may not be among the draws
    for one, number in expected.items():
        assert abs(counts[one] - number) < 4.5 * np.sqrt(number) + 1, (one, used[one])
    weights = {one: np.exp(probability[one]) / (used[one] if by == "frequency" else 1) for one in probability}
    assert len(np.unique(np.round(list(weights.values()), 7))) == 2  # one factor for each ps
    assert cluster.score()["drawn"] == pytest.approx(np.mean([log_q.mean() for _, log_q in found]), abs=0.1)


@pytest.mark.long
def test_the_estimated_frequencies_are_those_of_one_plain_session_and_in_the_checkpoint() -> None:
    model = two_tower.TwoTower()
    cluster = InProcessCluster(model, 2, 1, batch_size=16, steps_per_run="2", optimizer="sgd")
    cluster.start()
    initial = cluster.values()
    cluster.train(16, run=2)
    found = cluster.values()
    plain = train_plainly(
        two_tower.TwoTower(),
        lambda: v1.train.GradientDescentOptimizer(model.default_learning_rate),
        initial,
        batches_of(model, 16, 16),
    )
    assert {"item_frequencies/gap", "item_frequencies/last", "item_frequencies/seen"} < found.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, rtol=1e-4, err_msg=name)
    assert found["item_frequencies/seen"] == 256


class DrawingWords(Model):
    """Rows of strings that were looked up before, drawn; the number of batches in an update is kept."""

    def data(self, split, data_dir):
        words = np.array(
            [f"word {number} of many, so that it is hashed"[: 7 + 30 * (number % 2)] for number in range(40)]
        )
        return Arrays(words[np.random.default_rng(3).integers(0, 40, 2000)], np.zeros(2000, np.float32))

    def forward(self, features, training):
        table = embeddings.Table("words", 2, capacity=100)
        self.found = embeddings.lookup(table, features), negatives.keys_of(table, features)
        self.drawn = negatives.sample(table, DRAWS)
        self.batches = batches_per_update()
        return tf.reduce_mean(self.found[0]), 1e-3 * tf.reduce_sum(self.drawn.rows)

    def loss(self, outputs, labels):
        return outputs[0] + outputs[1]


@pytest.mark.long
def test_strings_are_drawn_by_their_hashes_and_an_update_has_the_batches_of_all_workers_but_backups() -> None:
    model = DrawingWords()
    cluster = InProcessCluster(model, 2, 3, batch_size=20, update="sync", backup_workers=1, max_steps=20)
    assert model.batches == 2
    drawn, found = model.drawn, model.found
    cluster.start()
    cluster.train(20)
    rows, keys = cluster.sessions[2].run(found)
    of_words = dict(zip(keys.tolist(), rows.tolist(), strict=True))
    for _ in range(4):
        more_rows, more = cluster.sessions[2].run(found)
        of_words |= dict(zip(more.tolist(), more_rows.tolist(), strict=True))
    values = cluster.sessions[2].run(drawn)
    assert len(of_words) > 35 and values.ids.size == DRAWS
    for key, row in zip(values.ids.tolist(), values.rows.tolist(), strict=True):
        assert of_words.get(key, row) == row
    assert len(set(values.ids.tolist()) & of_words.keys()) > 0.9 * len(set(values.ids.tolist()))


class FromManyRows(Model):
    """Ten draws from a table of 3.2 MB."""

    def data(self, split, data_dir):
        return Arrays(np.arange(2000), np.zeros(2000, np.float32))

    def forward(self, features, training):
        table = embeddings.Table("items", 8, rows=100_000)
        return embeddings.lookup(table, features) @ tf.transpose(negatives.sample(table, 10, "log_uniform").rows)

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs)


def test_only_the_rows_of_the_batch_and_of_the_draws_travel() -> None:
    cluster = InProcessCluster(FromManyRows(), 1, 1, batch_size=16)
    cluster.start()
    trace, found = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
    cluster.sessions[0].run(cluster.steps[0].steps_per_call(1), options=trace, run_metadata=found)
    received = sum(
        int(re.match(r"\[(\d+)B\]", node.timeline_label)[1])
        for device in found.step_stats.dev_stats
        if "/job:worker" in device.device
        for node in device.node_stats
        if node.node_name == "RecvTensor"
    )
    row = 8 * 4
    assert 17 * row <= received <= 26 * row  # a row is sent once, however often it is drawn
