"""Messages between processes in one step, counted in the graphs that TensorFlow ran."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import tensorflow.compat.v1 as v1

from ps_train.modeling.model import Model
from ps_train.models.layers import dense
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.long import long
from tests.support.models.small import Linear


class Deep(Linear):
    """Many small variables: 12 layers of 8x8, with biases."""

    def forward(self, features, training):
        for number in range(12):
            features = dense(features, 8, f"layer{number}")
        return dense(features, 1, "out")[:, 0]


class Large(Linear):
    """Two variables of more than 1 MiB beside small ones."""

    def forward(self, features, training):
        hidden = dense(dense(features, 1024, "small"), 512, "large")
        return dense(dense(hidden, 1024, "large2"), 1, "out")[:, 0]


def crossings(
    model: Model, num_ps: int, update: str, optimizer: str, **fields: Any
) -> collections.Counter[tuple[str, str]]:
    """(from, to) job to the number of tensors that one step of the second worker sends."""
    cluster = InProcessCluster(
        model,
        num_ps,
        2,
        update=update,
        optimizer=optimizer,
        learning_rate=1e-6,
        batch_size=4,
        partition_bytes=1 << 30,
        **fields,
    )
    cluster.start()
    cluster.train(2)
    metadata = v1.RunMetadata()
    step, session = cluster.steps[1], cluster.sessions[1]
    leader = cluster.sessions[0]
    options = v1.RunOptions(output_partition_graphs=True)
    actions = [lambda: session.run(step.ops.train, options=options, run_metadata=metadata)]
    if update != "async":
        actions.append(lambda: leader.run(cluster.steps[0].ops.train))
    in_parallel(actions)
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for graph in metadata.partition_graphs:
        for node in graph.node:
            if node.op in ("_Send", "_HostSend"):
                ends = [node.attr[name].s.decode() for name in ("send_device", "recv_device")]
                sender, receiver = ("/".join(end.split("/")[1:4:2]) for end in ends)
                if sender != receiver:
                    found[sender, receiver] += 1
    return found


@pytest.mark.long
@pytest.mark.parametrize("optimizer", [long("sgd"), "adam"])
@pytest.mark.parametrize("update", [long("async"), long("bounded"), "sync"])
def test_a_step_sends_one_parcel_each_way_to_each_ps_whatever_the_number_of_variables(
    update: str, optimizer: str
) -> None:
    worker = "job:worker/task:1"
    for num_ps in (1, 2):
        expected = collections.Counter()
        for ps in range(num_ps):
            expected |= collections.Counter({(f"job:ps/task:{ps}", worker): 1, (worker, f"job:ps/task:{ps}"): 1})
        if num_ps == 2 and update == "sync":  # who belongs to the update
            expected["job:ps/task:0", "job:ps/task:1"] = 1
        if num_ps == 2 and update == "bounded":  # the step is made there too
            expected["job:ps/task:1", "job:ps/task:0"] = 1
        assert crossings(Deep(), num_ps, update, optimizer) == expected


def test_a_large_variable_travels_alone() -> None:
    worker, ps = "job:worker/task:1", "job:ps/task:0"
    assert crossings(Large(), 1, "async", "sgd") == {(ps, worker): 3, (worker, ps): 3}


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_with_dynamic_sharding_one_small_message_more_goes_to_each_ps(update: str) -> None:
    static, dynamic = (crossings(Deep(), 2, update, "sgd", sharding=sharding) for sharding in ("static", "dynamic"))
    tickets = {("job:worker/task:1", f"job:ps/task:{ps}"): 1 for ps in range(2)}
    assert dynamic - static == collections.Counter(tickets)
    assert not static - dynamic
