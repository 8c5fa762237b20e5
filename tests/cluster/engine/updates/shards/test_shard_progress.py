"""A late push does not move the progress of a shard back."""

from __future__ import annotations

import pathlib
import threading

import pytest
import tensorflow as tf

from tests.cluster.engine.step.parts.test_sharding import EPOCHS, assert_each_was_used, run_all, workers_of
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.data.recording import Recording, ownership_of
from tests.support.machine.processes import eventually


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


@pytest.mark.long
def test_a_late_push_of_what_others_have_used_does_not_move_the_progress_back():
    """As when a worker is started again while the push of its earlier process is still on its way."""
    model, fields = Late(), {"update": "sync", "backup_workers": 1, "shard_examples": 40}
    cluster = InProcessCluster(model, 2, 2, **fields, **EPOCHS)
    cluster.start()
    late, other = workers_of(cluster)
    late.begin()

    def others() -> None:
        assert model.pulled.wait(30)
        look = ownership_of(cluster.steps[1])
        cluster.sessions[1].run(look.compare_and_set, look.feeds({0: (1, 0)}))  # from worker 0 to nobody
        other.begin()
        assert other.make(3) == 3
        model.may_push.set()

    in_parallel([lambda: late.make(1), others], within_secs=40)
    for progress in cluster.sessions[0].run(ownership_of(cluster.steps[0]).read)["progress"]:
        assert progress[0] == 24
    assert cluster.values()["ps_train/dropped"] == 1
    cluster.dismiss(0)
    other.run()
    assert_each_was_used(cluster, 1)


@pytest.mark.long
def test_a_push_that_only_one_ps_got_is_used_by_the_other_when_its_examples_are_read_again():
    """Its worker lost its session in between.  The push after it is of values from two rounds, and is dropped."""
    # A variable is whole, so every example has its element on each ps.
    cluster = InProcessCluster(Recording(ones=True), 2, 2, partition_bytes=1 << 20, update="sync", **EPOCHS)
    cluster.start()
    other, lost = workers_of(cluster)
    other.begin()
    lost.begin()
    assert lost.shares.take(1, 0) == 1

    def back():
        lost.session.run(lost.step.ops.train[0])  # the part on ps 0, which waits for the end of the round there
        lost.begin()
        assert lost.make(1) == 1

    in_parallel([lambda: other.make(1), back], within_secs=40)
    assert cluster.values()["ps_train/dropped"] == 1
    in_parallel([other.run, lost.run], within_secs=60)
    assert_each_was_used(cluster, 1)


@pytest.mark.long
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("keeps_own", [True, False])
def test_a_checkpoint_taken_after_one_ps_went_back_has_the_used_examples_of_each(
    tmp_path: pathlib.Path, lost: int, keeps_own: bool
) -> None:
    """Under `async` a ps that lost its state is restored alone, and has used fewer examples than the others."""
    fields = {"partition_bytes": 1 << 20, "shard_examples": 40, **EPOCHS}
    cluster = InProcessCluster(Recording(), 2, 1, tmp_path, **fields)
    cluster.start()
    (worker,) = workers_of(cluster)
    session, checkpoints = cluster.sessions[0], cluster.checkpoints
    assert checkpoints is not None
    worker.begin()
    assert worker.make(2) == 2
    checkpoints.save(session)
    assert worker.make(2) == 2
    checkpoints.restore(session, only=[lost])
    checkpoints.save(session)
    if keeps_own:
        checkpoints.restore(session)
    else:  # as after the other ps was lost too
        checkpoints.restore(session, only=[1 - lost])
    run_all(cluster)
    assert_each_was_used(cluster, 1)


@pytest.mark.long
def test_a_worker_that_comes_back_within_the_round_of_its_former_process_loses_no_example() -> None:
    """Its push comes too late, because the round ends without it; its examples are read again."""
    model = Late()
    cluster = InProcessCluster(model, 2, 2, partition_bytes=1 << 20, update="sync", shard_examples=40, **EPOCHS)
    cluster.start()
    back, other = workers_of(cluster)
    back.begin()
    other.begin()
    assert back.shares.take(1, 0) == 1
    model.may_push.set()

    def former() -> None:
        back.session.run(back.step.ops.train)  # until the round ends

    def again() -> None:
        awaited = cluster.steps[1].ops.awaited[0]
        eventually(lambda: cluster.sessions[1].run(awaited).tolist() == [False, True], 30, "the push of the former")
        model.may_push.clear()
        model.pulled.clear()
        back.begin()
        look = ownership_of(cluster.steps[1])
        cluster.sessions[1].run(look.compare_and_set, look.feeds({0: (0, 2)}))  # worker 1 takes what it had
        assert back.make(1) == 1

    def complete() -> None:
        eventually(lambda: model.pulled.is_set() and not model.may_push.is_set(), 30, "the pull of the next")
        assert other.make(1) == 1
        model.may_push.set()

    in_parallel([former, again, complete], within_secs=90)
    in_parallel([back.run, other.run], within_secs=60)
    assert_each_was_used(cluster, 1)
