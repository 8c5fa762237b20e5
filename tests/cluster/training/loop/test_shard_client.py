"""A worker that lost a shard reads elsewhere, and repeats a push that reached only one ps."""

from __future__ import annotations

from tests.cluster.engine.step.parts.test_sharding import EPOCHS, workers_of
from tests.support.clusters.cluster import InProcessCluster
from tests.support.data.recording import Recording, used


def test_a_worker_whose_shard_was_given_to_another_reads_on_elsewhere():
    """The other one has not used anything of it yet."""
    cluster = InProcessCluster(Recording(), 2, 2, shard_examples=40, **EPOCHS)
    cluster.start()
    sleeper, other = workers_of(cluster)
    sleeper.begin()
    assert sleeper.make(1) == 1
    cluster.dismiss(0, by=1)
    other.begin()
    assert other.shares.take(1, 0) == 1
    assert sleeper.make(1) == 1
    other.session.run(other.step.ops.train)
    assert cluster.values()["ps_train/dropped"] == 0
    first, _ = used(cluster)
    assert (first.sum(), first[:16].sum()) == (24, 16), "eight of them from elsewhere"


def test_a_worker_repeats_what_reached_one_ps_only_before_it_goes_on():
    cluster = InProcessCluster(Recording(), 2, 1, partition_bytes=1 << 20, shard_examples=40, **EPOCHS)
    cluster.start()
    (worker,) = workers_of(cluster)
    worker.begin()
    assert worker.shares.take(1, 0) == 1
    worker.session.run([op for op in worker.step.ops.train if "task:0" in op.device])
    worker.shares.step_done([0, 0, 8])
    assert worker.make(1) == 1
    assert [int(counts.sum()) for counts in used(cluster)] == [8, 8]
