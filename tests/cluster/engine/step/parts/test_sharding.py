"""--sharding=dynamic: every example of an epoch is used exactly once, whoever dies, sleeps, comes or goes.

It is checked by values: each use of an example adds one to its element of the model's variables.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from ps_train import ModelError
from ps_train.engine.step.parts.sharding import Sharding
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.clusters.loops import SharedBudget
from tests.support.data.recording import Recording, SharingWorker, ownership_of, used
from tests.support.long import long

EPOCHS = {"sharding": "dynamic", "batch_size": 8, "epochs": 1, "max_steps": 100_000}


def workers_of(cluster, **more):
    return [SharingWorker(cluster, index, **more) for index in range(len(cluster.steps))]


def run_all(cluster):
    workers = workers_of(cluster)
    in_parallel([worker.run for worker in workers], within_secs=60)
    return workers


def assert_each_was_used(cluster, times):
    for counts in used(cluster):
        np.testing.assert_array_equal(counts, np.full(len(counts), times))


@pytest.mark.long
@pytest.mark.parametrize("num_ps, num_workers, run", [long(1, 1, "1"), long(2, 2, "1"), (2, 3, "4")])
def test_of_some_epochs_every_example_is_used_as_many_times(num_ps, num_workers, run):
    fields = {**EPOCHS, "epochs": 3, "steps_per_run": run, "shuffle_buffer": 100}
    cluster = InProcessCluster(Recording(), num_ps, num_workers, **fields)
    cluster.start()
    run_all(cluster)
    assert_each_was_used(cluster, 3)
    assert cluster.values()["ps_train/examples"] == 3000
    assert cluster.values()["ps_train/dropped"] == 0


@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize("run", [long("1"), long("4")])
def test_under_sync_too(num_ps, run):
    model = Recording(ones=True, count=600)
    cluster = InProcessCluster(model, num_ps, 2, update="sync", steps_per_run=run, **EPOCHS)
    cluster.start()
    run_all(cluster)
    assert_each_was_used(cluster, 1)


@pytest.mark.long
def test_under_bounded_staleness_too():
    cluster = InProcessCluster(Recording(), 2, 2, update="bounded", **EPOCHS)
    cluster.start()
    run_all(cluster)
    assert_each_was_used(cluster, 1)


@pytest.mark.long
@pytest.mark.parametrize("update, run", [long("async", "4"), ("sync", "1")])
@pytest.mark.parametrize("shuffle_buffer", [long(0), 10])
def test_the_chunks_of_a_stream_are_assigned_too(update, run, shuffle_buffer):
    fields = {**EPOCHS, "steps_per_run": run, "shuffle_buffer": shuffle_buffer}
    model = Recording(ones=update == "sync", stream=True)
    cluster = InProcessCluster(model, 2, 2, update=update, **fields)
    cluster.start()
    (sharding,) = cluster.steps[0].parts.of(Sharding)
    assert sharding.assigned.count > 10
    run_all(cluster)
    assert_each_was_used(cluster, 1)


@pytest.mark.long
def test_a_faster_worker_takes_more():
    cluster = InProcessCluster(Recording(), 1, 2, **EPOCHS)
    cluster.start()

    def lag() -> None:
        """Until the other one has made three steps to one."""
        deadline = time.monotonic() + 30
        while fast.made < 3 * slow.made and not fast.idle and time.monotonic() < deadline:
            time.sleep(0.001)

    fast, slow = SharingWorker(cluster, 0), SharingWorker(cluster, 1, pause=lag)
    in_parallel([fast.run, slow.run], within_secs=60)
    assert_each_was_used(cluster, 1)
    assert fast.made > 1.5 * slow.made > 0


@pytest.mark.parametrize("update", ["async", long("sync"), long("bounded")])
def test_what_a_dead_worker_has_not_used_goes_to_others(update):
    cluster = InProcessCluster(Recording(ones=update == "sync"), 2, 2, update=update, shard_examples=40, **EPOCHS)
    cluster.start()
    survivor, victim = workers_of(cluster)
    for worker in (victim, survivor):
        worker.begin()
    in_parallel([lambda: survivor.make(3), lambda: victim.make(3)])  # in the middle of a shard
    cluster.dismiss(1)  # as the chief does when its lease is over
    in_parallel([survivor.run], within_secs=60)
    assert_each_was_used(cluster, 1)
    assert cluster.values()["ps_train/dropped"] == 0


def test_as_long_as_a_worker_owns_a_shard_no_other_is_given_it():
    cluster = InProcessCluster(Recording(), 1, 2, shard_examples=500, **EPOCHS)
    cluster.start()
    first, second = workers_of(cluster)
    for worker in (first, second):
        worker.begin()
    assert first.make(1) == second.make(1) == 1
    assert not second.shares.has_work()
    cluster.dismiss(0)
    assert second.shares.has_work()


@pytest.mark.long
@pytest.mark.parametrize("update", [long("async"), "sync"])
@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_a_push_of_what_others_have_used_meanwhile_changes_nothing(update, num_ps):
    cluster = InProcessCluster(Recording(ones=update == "sync"), num_ps, 2, update=update, shard_examples=40, **EPOCHS)
    cluster.start()
    zombie, other = workers_of(cluster)
    zombie.begin()
    if update == "sync":
        cluster.dismiss(1)
    assert zombie.make(2) == 2
    cluster.dismiss(0, by=1)  # it sleeps, and is taken for dead
    other.run()
    assert_each_was_used(cluster, 1)
    step = cluster.global_step()
    zombie.session.run(zombie.step.ops.train)  # wakes in the middle of its shard
    assert_each_was_used(cluster, 1)
    assert cluster.global_step() == step
    if update == "async":
        assert cluster.values()["ps_train/dropped"] == 1
    assert zombie.make(1) == 0


@pytest.mark.long
def test_of_two_pushes_of_the_same_examples_in_a_round_one_counts():
    cluster = InProcessCluster(Recording(ones=True), 2, 2, update="sync", shard_examples=40, **EPOCHS)
    cluster.start()
    zombie, other = workers_of(cluster)
    zombie.begin()
    zombie.shares.take(1, 0)
    ownership = ownership_of(cluster.steps[1])
    cluster.sessions[1].run(ownership.compare_and_set, ownership.feeds({0: (1, 0)}))
    other.begin()
    other.shares.take(1, 0)
    in_parallel([lambda w=w: w.session.run(w.step.ops.train) for w in (zombie, other)])
    for counts in used(cluster):
        np.testing.assert_array_equal(counts, np.arange(1000) < 8)
    assert cluster.values()["ps_train/examples"] == 8
    assert cluster.values()["ps_train/dropped"] == 1


def test_a_push_that_reached_one_ps_only_is_repeated_on_the_other():
    cluster = InProcessCluster(Recording(), 2, 1, partition_bytes=1 << 20, shard_examples=40, **EPOCHS)
    cluster.start()
    (worker,) = workers_of(cluster)
    worker.begin()
    assert worker.shares.take(1, 0) == 1
    on_the_first = [op for op in worker.step.ops.train if "task:0" in op.device]
    assert len(on_the_first) == 1 and len(worker.step.ops.train) == 2
    worker.session.run(on_the_first)
    assert {int(counts.sum()) for counts in used(cluster)} == {8, 0}
    worker.run()
    assert_each_was_used(cluster, 1)


@pytest.mark.long
def test_what_the_user_asks_to_leave_out_counts_as_used():
    cluster = InProcessCluster(Recording(), 1, 2, max_staleness=0, **EPOCHS)
    cluster.start()
    run_all(cluster)
    (first, second), values = used(cluster), cluster.values()
    np.testing.assert_array_equal(first, second)
    assert first.max() == 1
    assert first.sum() == 1000 - 8 * values["ps_train/dropped"]


@pytest.mark.parametrize("run", ["1", "8"])
@pytest.mark.usual(1)
def test_the_job_still_ends_at_max_steps_and_the_rest_is_left_over(run):
    cluster = InProcessCluster(Recording(), 1, 2, **{**EPOCHS, "max_steps": 60, "steps_per_run": run})
    cluster.start()
    budget = SharedBudget(60)
    workers = workers_of(cluster, pace=budget)
    in_parallel([worker.run for worker in workers])
    assert cluster.global_step() == 60
    assert [int(counts.sum()) for counts in used(cluster)] == [480, 480]
    assert max(counts.max() for counts in used(cluster)) == 1


@pytest.mark.long
@pytest.mark.parametrize("num_ps, num_workers", [long(1, 1), (3, 3)])
def test_a_checkpoint_knows_what_was_used_whatever_ps_and_workers_it_goes_to(tmp_path, num_ps, num_workers):
    fields = {**EPOCHS, "epochs": 2, "shard_examples": 40, "shuffle_buffer": 10}
    cluster = InProcessCluster(Recording(), 2, 2, tmp_path, **fields)
    cluster.start()
    for worker in workers_of(cluster):
        worker.begin()
        worker.make(40)
    cluster.checkpoints.save(cluster.sessions[0])
    for worker in workers_of(cluster):
        worker.begin()
        worker.make(7)  # these are lost
    other = InProcessCluster(Recording(), num_ps, num_workers, tmp_path, **{**fields, "batch_size": 16})
    other.start(restore=True)
    assert [int(counts.sum()) for counts in used(other)] == [640, 640]
    run_all(other)
    assert_each_was_used(other, 2)


@pytest.mark.parametrize(
    "before, has",
    [
        ({"sharding": "static"}, "has nothing for ps_train/progress/1000_examples_by_8_in_order: "),
        (
            {"shard_examples": 9},
            "has ps_train/progress/1000_examples_by_9_in_order for ps_train/progress/1000_examples_",
        ),
    ],
)
@pytest.mark.usual(1)
def test_a_checkpoint_that_does_not_know_it_is_refused_with_the_flags_to_look_at(tmp_path, before, has):
    one = InProcessCluster(Recording(), 1, 1, tmp_path, **{**EPOCHS, **before})
    one.start()
    one.checkpoints.save(one.sessions[0])
    other = InProcessCluster(Recording(), 1, 1, tmp_path, **EPOCHS)
    with pytest.raises(ModelError) as caught:
        other.start(restore=True)
    assert has in str(caught.value) and "shard_examples, shuffle_buffer, seed" in str(caught.value)
    assert "\n" not in str(caught.value)
