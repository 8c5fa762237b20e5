"""--sharding=dynamic: pushes that come late, in part, or of a shard that another worker has by now."""

from __future__ import annotations

import threading

import tensorflow as tf

from tests.cluster.test_dynamic_sharding import EPOCHS, assert_each_was_used, workers_of
from tests.support.cluster import InProcessCluster, in_parallel
from tests.support.recording import Recording, used


class Late(Recording):
    """Worker 0 waits in front of its push until it may go on."""

    def __init__(self) -> None:
        super().__init__(ones=True)
        self.builds = 0
        self.pulled, self.may_push = threading.Event(), threading.Event()

    def forward(self, features, training):
        self.builds += 1
        if self.builds != 2:  # the first time is the trace
            return super().forward(features, training)

        def wait(loss):
            self.pulled.set()
            assert self.may_push.wait(30)
            return loss

        loss = super().forward(features, training)
        return loss * tf.ensure_shape(tf.numpy_function(wait, [tf.ones([]) + 0 * loss], tf.float32), [])


def test_a_late_push_of_what_others_have_used_moves_no_cursor_back():
    """As when a worker is started again while the push of its earlier process is still on its way."""
    model, fields = Late(), {"update": "sync", "backup_workers": 1, "shard_examples": 40}
    cluster = InProcessCluster(model, 2, 2, **fields, **EPOCHS)
    cluster.start()
    late, other = workers_of(cluster)
    late.begin()

    def others() -> None:
        assert model.pulled.wait(30)
        look = cluster.steps[1].ownership
        cluster.sessions[1].run(look.compare_and_set, look.feeds({0: (1, 0)}))  # from worker 0 to nobody
        other.begin()
        assert other.make(3) == 3
        model.may_push.set()

    in_parallel([lambda: late.make(1), others], within_secs=40)
    for progress in cluster.sessions[0].run(cluster.steps[0].ownership.read)["progress"]:
        assert progress[0] == 24
    assert cluster.values()["ps_train/dropped"] == 1
    cluster.dismiss(0)
    other.run()
    assert_each_was_used(cluster, 1)


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


def test_a_worker_makes_good_what_reached_one_ps_only_before_it_goes_on():
    cluster = InProcessCluster(Recording(), 2, 1, partition_bytes=1 << 20, shard_examples=40, **EPOCHS)
    cluster.start()
    (worker,) = workers_of(cluster)
    worker.begin()
    assert worker.shares.take(1, 0) == 1
    worker.session.run([op for op in worker.step.ops.train if "task:0" in op.device])
    worker.shares.step_done([0, 0, 8])
    assert worker.make(1) == 1
    assert [int(counts.sum()) for counts in used(cluster)] == [8, 8]
