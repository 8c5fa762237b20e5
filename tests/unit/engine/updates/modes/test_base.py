"""What all update modes share: a replica's place, a shard's update, and limits of waiting."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job, Task
from ps_train.engine.transport.received_push import Header
from ps_train.engine.updates.modes.asynchronous import Asynchronous
from ps_train.engine.updates.modes.base import ParameterShard, Replica, WaitLimit
from ps_train.engine.updates.modes.shard_part import ShardPart, Update
from tests.support.graphs.local import LocalSession


def test_a_replica_knows_how_many_there_are_and_may_be() -> None:
    job = Job(
        ps_hosts=("a:1",), chief_hosts=("a:2",), worker_hosts=("a:3", "a:4"), max_workers=4, update="async", epochs=0
    )
    cluster = Cluster.of(job)
    places = [Replica.of(cluster, task) for task in (Task("chief", 0), Task("worker", 0), Task("worker", 3))]
    assert [place.index for place in places] == [0, 1, 4]
    assert {(place.count, place.declared) for place in places} == {(5, 3)}
    assert [place.is_declared() for place in places] == [True, True, False]
    assert places[0].each(1, 0) == [1, 1, 1, 0, 0]


def test_a_fixed_limit_is_the_same_at_every_use() -> None:
    limit = WaitLimit.fixed(3)
    assert (limit.most, limit.value(), limit.value()) == (3, 3, 3)


def test_a_version_is_the_update_count_of_its_ps_and_is_read_there() -> None:
    with tf.Graph().as_default() as graph:
        counts = [v1.Variable(number, dtype=tf.int64, use_resource=True) for number in (7, 9)]
        found = Asynchronous().read_versions(counts, Replica(0, 1, 1))
        assert [one.device for one in found] == [f"/job:ps/replica:0/task:{ps}/device:CPU:0" for ps in (0, 1)]
        assert LocalSession(graph).run(found) == [7, 9]
        assert Asynchronous().batches_per_update(Replica(0, 4, 4)) == 1


class Noting(ShardPart):
    """Adds the examples of each update to a variable."""

    def __init__(self, total: tf.Variable) -> None:
        self.total = total

    def updated(self, update: Update) -> list[tf.Operation]:
        return [self.total.assign_add(update.header.examples, read_value=False)]


@pytest.mark.parametrize("conditions", [[], [True], [True, True], [False], [True, False], [False, True]])
def test_an_update_applies_counts_and_tells_the_parts_where_all_conditions_hold(conditions: list[bool]) -> None:
    with tf.Graph().as_default() as graph:
        count = v1.Variable(4, dtype=tf.int64, use_resource=True)
        weight, total, seen = (v1.Variable(0.0, use_resource=True) for _ in range(3))

        def apply(gradients, divisors, steps) -> tf.Operation:
            rate = 1.0
            for divisor in divisors:
                rate /= divisor
            with tf.control_dependencies([gradients["w"]]):
                noted = seen.assign(tf.cast(count.read_value(), tf.float32), read_value=False)
            return tf.group(weight.assign_sub(rate * gradients["w"], read_value=False), noted)

        def of_count(examples: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
            return examples + tf.cast(before, tf.float32)

        header = Header(tf.constant(16.0), tf.constant(0.0), tf.constant(0.0))
        shard = ParameterShard(0, apply, count, tf.constant(0, tf.int64), [Noting(total)], [of_count])
        only_if = [v1.placeholder_with_default(one, []) for one in conditions]
        update = shard.update({"w": tf.constant(80.0)}, Update(header), only_if, [tf.constant(2.0)])
        session = LocalSession(graph)
        session.run(update)
        found = session.run([count, weight, total, seen])
    assert found == ([5, -2.0, 16.0, 4.0] if all(conditions) else [4, 0.0, 0.0, 0.0]), "80 / (16 + 4) / 2"
