"""Messages between processes for tables in one step, counted and weighed in the graphs that TensorFlow ran."""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.modeling.tables.row_order import positions_of
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.long import long
from tests.support.models.small import Linear

ROWS, DIMENSION, BATCH = 5000, 16, 32


class Fields(Linear):
    """So many fields of Zipf-distributed ids in so many tables, and no other variable.

    `vocabulary`: the first table is an open one.
    """

    def __init__(self, fields: int, tables: int, vocabulary: bool = False) -> None:
        self.fields, self.tables, self.vocabulary = fields, tables, vocabulary

    def data(self, split, data_dir):
        random = np.random.default_rng(3)
        ids = np.minimum(random.zipf(1.2, size=(1024, self.fields)) - 1, ROWS - 1)
        return Arrays(ids, random.normal(size=1024).astype(np.float32))

    def forward(self, features, training):
        found = []
        for i, some in enumerate(tf.split(features, self.tables, axis=1)):
            width = some.shape[1]
            if self.vocabulary and i == 0:
                declared = {"capacity": ROWS * width, "ids": some + tf.range(width, dtype=tf.int64) * ROWS}
            else:
                declared = {"rows": [ROWS] * width, "ids": some}
            found.append(embeddings.lookup(f"table{i}", dimension=DIMENSION + i, **declared))
        return tf.add_n([tf.reduce_sum(some, [1, 2]) for some in found])


def traced_steps(model: Linear, num_ps: int, update: str) -> Iterator[v1.RunMetadata]:
    """What TensorFlow tells of the second worker's third step, fourth step, and so on."""
    cluster = InProcessCluster(model, num_ps, 2, update=update, optimizer="adagrad", batch_size=BATCH)
    cluster.start()
    cluster.train(2)
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    step, session = cluster.steps[1], cluster.sessions[1]

    def traced() -> v1.RunMetadata:
        metadata = v1.RunMetadata()
        actions = [lambda: session.run(step.ops.train, options=options, run_metadata=metadata)]
        if update == "sync":
            actions.append(lambda: cluster.sessions[0].run(cluster.steps[0].ops.train))
        in_parallel(actions)
        return metadata

    while True:
        yield traced()


def received_bytes(metadata: v1.RunMetadata) -> list[int]:
    """The bytes of every tensor that one process received from another."""
    labels = [node.timeline_label for device in metadata.step_stats.dev_stats for node in device.node_stats]
    return [int(match[1]) for label in labels if (match := re.match(r"\[(\d+)B\].* from /job:", label))]


def first_whole(traced: Iterator[v1.RunMetadata]) -> tuple[int, v1.RunMetadata]:
    """The first trace, with the number of its step, that tells of every tensor received.

    On a busy machine TensorFlow loses what one of the ps recorded, about once in fifteen traces.
    """
    for number, metadata in enumerate(itertools.islice(traced, 10), start=2):
        if len(received_bytes(metadata)) == crossings(metadata).total():
            return number, metadata
    pytest.fail("no trace of ten was whole")


def crossings(metadata: v1.RunMetadata) -> collections.Counter[tuple[str, str]]:
    """(from, to) to the number of tensors sent."""
    nodes = [node for graph in metadata.partition_graphs for node in graph.node if node.op in ("_Send", "_HostSend")]
    pairs = [[node.attr[end].s.decode().split("/") for end in ("send_device", "recv_device")] for node in nodes]
    named = [tuple(f"{parts[1][4:]}:{parts[3][5:]}" for parts in pair) for pair in pairs]
    return collections.Counter(pair for pair in named if pair[0] != pair[1])


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize(("fields", "tables", "vocabulary"), [long(2, 1, False), long(12, 3, False), (12, 3, True)])
def test_per_ps_ids_rows_gradients_and_a_header_cross_once_whatever_the_number_of_fields_and_tables(
    update: str, num_ps: int, fields: int, tables: int, vocabulary: bool
) -> None:
    expected: collections.Counter[tuple[str, str]] = collections.Counter()
    for ps in range(num_ps):
        expected[f"ps:{ps}", "worker:1"] += 1  # rows
        expected["worker:1", f"ps:{ps}"] += 3  # ids, gradients of rows, and how many examples they are of
        if update == "async" or num_ps == 1:
            expected[f"ps:{ps}", "worker:1"] += 1  # that it takes part, before a batch is taken
    if update == "sync" and num_ps == 2:
        expected["ps:0", "ps:1"] += 1  # who belongs to the update
        for ps in range(num_ps):
            expected[f"ps:{ps}", "worker:1"] += 1  # the clock, by which values of different steps are recognised
    assert crossings(next(traced_steps(Fields(fields, tables, vocabulary), num_ps, update))) == expected


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize("vocabulary", [long(False), True])
def test_the_bytes_are_4_for_an_id_or_12_of_an_open_one_and_8_for_a_number_of_every_row_that_differs(
    num_ps: int, vocabulary: bool
) -> None:
    model = Fields(6, 1, vocabulary)
    ids = model.data("train", "").features
    number, metadata = first_whole(traced_steps(model, num_ps, "async"))
    traced = ids[np.arange(number * BATCH, (number + 1) * BATCH) * 2 + 1]  # of worker 1
    unique = len(np.unique(traced + np.arange(6) * ROWS))
    assert unique < 0.8 * traced.size, "ids must repeat"
    expected = (12 if vocabulary else 4) * unique + 8 * unique * DIMENSION
    sent = sum(received_bytes(metadata))
    assert expected <= sent <= 1.05 * expected, (sent, expected)


@pytest.mark.parametrize("num_ps", [2, long(3), 8])
@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.2])
def test_bytes_and_traffic_of_zipf_distributed_ids_are_balanced(num_ps: int, exponent: float) -> None:
    rows, batch = 100_000, 1024 * 8
    share = 1.0 / np.arange(1, rows + 1) ** exponent
    random = np.random.default_rng(1)
    fields = [random.choice(rows, batch, p=share / share.sum()) + field * rows for field in range(3)]
    total = 3 * rows
    for ids in (np.unique(fields[0]), np.unique(np.concatenate(fields))):  # a table of one field, and of three
        size = rows if ids.max() < rows else total
        per_ps, _ = np.histogram(positions_of(ids, size), np.linspace(0, size, num_ps + 1))
        assert per_ps.max() / per_ps.mean() <= 1.2, per_ps
    plan = make_plan([VariableSpec("table", (total, 16), "float32", 4, spread=True)], num_ps)
    assert plan.imbalance() < 1.001
