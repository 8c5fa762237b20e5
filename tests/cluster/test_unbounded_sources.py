"""Data without an end: every row is used exactly once, although workers, partitions and rows come and go.

It is checked by values: each use of a number adds one to its element of the model's variables.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from ps_train.base.errors import DataError, UnreachableError
from ps_train.data import Row
from ps_train.data.unbounded import read_ahead
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.data.recording import SharingWorker, ownership_of, used
from tests.support.data.unbounded import Memory, RecordingRows
from tests.support.long import long
from tests.support.machine.processes import eventually

FIELDS = {"sharding": "dynamic", "batch_size": 4, "max_steps": 100_000, "max_batch_wait_secs": 0.05}


@pytest.fixture
def workers():
    made = []
    yield made
    for worker in made:
        worker.shares.close()


def job(source, workers, count=400, num_ps=2, num_workers=2, directory=None, restore=False, **fields):
    model = RecordingRows(source, count, ones=fields.get("update") == "sync")
    cluster = InProcessCluster(model, num_ps, num_workers, directory=directory, **{**FIELDS, **fields})
    cluster.start(restore)
    workers += [SharingWorker(cluster, index) for index in range(num_workers)]
    return cluster


def assert_used(cluster, times):
    for counts in used(cluster):
        np.testing.assert_array_equal(counts, times)


def numbers_used(cluster):
    return int(sum(counts.sum() for counts in used(cluster))) // 2


def owners(cluster):
    """The number of partitions of each worker."""
    held = cluster.read("ps_train/holders")[: Memory.most_partitions]
    return [int((held == index + 1).sum()) for index in range(len(cluster.steps))]


def make_until(workers, condition, what):
    """All workers make steps, as far as they have rows."""

    def step() -> bool:
        for worker in workers:
            if worker.shares.has_work():
                worker.begin()
                worker.make(3)
        return condition()

    eventually(step, 120, what)


def test_a_worker_measures_what_is_left_of_its_partitions(workers, monkeypatch):
    monkeypatch.setattr(read_ahead, "_ASK_SECS", 0.05)
    source = Memory(1)
    source.add(0, *range(40))
    job(source, workers, 40, num_workers=1)
    (worker,) = workers
    worker.begin()

    def measured() -> list[float] | None:
        worker.shares.has_work()
        return worker.shares.measured()["lag"].get("0")

    eventually(lambda: measured() == [40.0, 0.0], 30, "the lag")
    worker.make(3)
    eventually(lambda: measured() == [28.0, 12.0], 30, "the lag after three batches of four")


@pytest.mark.parametrize("update", ["async", long("sync"), long("bounded")])
def test_rows_that_arrive_while_workers_wait_are_used_once_and_the_job_ends_at_the_ends(workers, update):
    source, count = Memory(3), 300
    cluster = job(source, workers, count, update=update)

    def write() -> None:
        for number in range(count):
            source.add(number % 3, number)
            time.sleep(0.05 if number % 100 == 50 else 0.001)
        source.ends = {0: 100, 1: 100, 2: 100}

    in_parallel([write, *(worker.run for worker in workers)], within_secs=60)
    assert_used(cluster, np.ones(count))
    assert cluster.values()["ps_train/examples"] == count
    assert all(worker.made for worker in workers)


@pytest.mark.long
def test_under_sync_a_worker_without_a_partition_is_not_waited_for(workers):
    source = Memory(1)
    source.add(0, *range(200))
    source.ends = {0: 200}
    cluster = job(source, workers, 200, update="sync", num_workers=3)
    in_parallel([worker.run for worker in workers], within_secs=60)
    assert_used(cluster, np.ones(200))


def test_partitions_go_to_a_worker_that_joins_and_back_when_it_dies(workers):
    source = Memory(4)
    for partition in range(4):
        source.add(partition, *range(partition * 100, partition * 100 + 100))
    cluster = job(source, workers)
    first, second = workers
    first.begin()
    make_until([first], lambda: owners(cluster) == [4, 0], "all are of the only worker")
    second.begin()
    make_until([second, first], lambda: owners(cluster) == [2, 2], "each has its share")
    before = numbers_used(cluster)
    assert 0 < before < 400
    cluster.dismiss(1)  # as the chief does when its lease is over
    make_until([first], lambda: owners(cluster) == [4, 0], "the other takes what the dead one had")
    make_until([first], lambda: numbers_used(cluster) == 400, "all are used")
    assert_used(cluster, np.ones(400))
    cluster.sessions[1].run(second.step.ops.train)  # it wakes, in the middle of a partition
    assert_used(cluster, np.ones(400))


def test_a_partition_that_is_added_is_read_from_its_beginning(workers):
    source = Memory(1, first="latest")
    source.add(0, *range(50))
    cluster = job(source, workers, 100, num_workers=1)
    (worker,) = workers
    worker.begin()
    make_until([worker], lambda: cluster.read("ps_train/progress_0")[0] == 51, "the beginning is kept")
    source.rows.append([])
    source.add(1, *range(50, 60))
    source.add(0, *range(60, 70))
    make_until([worker], lambda: numbers_used(cluster) == 20, "the new ones are used")
    assert_used(cluster, [0.0] * 50 + [1.0] * 20 + [0.0] * 30)


@pytest.mark.long
def test_a_restored_job_goes_on_with_the_rows_that_the_checkpoint_has_not_used(workers, tmp_path):
    source = Memory(2)
    source.add(0, *range(60))
    cluster = job(source, workers, 120, directory=tmp_path)
    for worker in workers:
        worker.begin()
    make_until(workers, lambda: numbers_used(cluster) >= 20, "some are used")
    cluster.snapshots.save(cluster.sessions[0])
    cluster.snapshots.wait(cluster.sessions[0])
    saved = numbers_used(cluster)
    make_until(workers, lambda: numbers_used(cluster) >= saved + 12, "more are used, and lost")
    for worker in workers:
        worker.shares.close()
    workers.clear()
    source.add(1, *range(60, 120))
    source.ends = {0: 60, 1: 60}
    again = job(source, workers, 120, num_ps=1, num_workers=3, directory=tmp_path, restore=True)
    assert numbers_used(again) == saved
    in_parallel([worker.run for worker in workers], within_secs=60)
    assert_used(again, np.ones(120))


def test_a_ps_that_is_ahead_does_not_use_rows_twice(workers):
    source = Memory(1)
    source.add(0, *range(40))
    source.ends = {0: 40}
    cluster = job(source, workers, 40, num_workers=1)
    ahead = next(v for v in cluster.steps[0].graph.get_collection("variables") if v.op.name == "ps_train/progress_1")
    values = np.zeros(Memory.most_partitions, np.int64)
    values[0] = 18  # rows 0 to 16 are used there
    table = ownership_of(cluster.steps[0])
    cluster.sessions[0].run(table.begin, table.begin_feeds({0: 1}))
    cluster.sessions[0].run(ahead.initializer, {ahead.initializer.inputs[1]: values})
    workers[0].run()
    first, second = used(cluster)
    assert sorted([first.sum(), second.sum()]) == [23, 40]
    assert max(first.max(), second.max()) == 1


def test_several_workers_begin_partitions_at_once_and_the_first_decides(workers):
    cluster = job(Memory(2), workers)
    tables = [(session, ownership_of(step)) for session, step in zip(cluster.sessions, cluster.steps, strict=True)]

    def begin(number: int) -> None:
        session, table = tables[number]
        session.run(table.begin, table.begin_feeds({0: 10 + number, 1: 20 + number}))

    in_parallel([lambda: begin(0), lambda: begin(1)])
    found = [cluster.read(f"ps_train/progress_{ps}")[:3].tolist() for ps in range(2)]
    assert found[0] == found[1]
    assert found[0] in ([10, 20, 0], [11, 21, 0])


def test_rows_without_values_and_gaps_move_the_offset_only(workers):
    source = Memory(1)
    source.rows[0] = [Row(b"0", 5), Row(None, 6), Row(b"1", 9, next=20), *(Row(None, o) for o in range(20, 30))]
    source.ends = {0: 40}
    cluster = job(source, workers, 2, num_workers=1)
    source.rows[0] += [Row(b"0", 41)]  # after the end
    workers[0].run()
    assert_used(cluster, [1, 1])
    assert cluster.read("ps_train/progress_0")[0] == 41


@pytest.mark.parametrize("update", ["sync", "async", "bounded"])
def test_partitions_that_begin_without_values_hold_up_nobody(workers, update):
    source = Memory(2)
    source.rows = [[Row(None, 0)], [Row(None, 0), Row(None, 1)]]
    cluster = job(source, workers, 40, update=update, max_batch_wait_secs=0.01)

    def add() -> None:
        """Rows come when the places of those without values are on the ps."""
        eventually(lambda: (cluster.read("ps_train/progress_0")[:2] == [2, 3]).all(), 20, "the places")
        for partition in range(2):
            source.add(partition, *range(partition * 20, 20 + partition * 20))
        source.ends = {0: 21, 1: 22}

    in_parallel([*(worker.run for worker in workers), add], within_secs=60)
    assert_used(cluster, 1)


def test_rows_that_cannot_be_parsed_are_left_out_with_their_place(workers, caplog):
    source = Memory(1)
    source.add(0, *range(10))
    source.rows[0][3] = Row(b"three", 3)
    source.ends = {0: 10}
    cluster = job(source, workers, 10, num_workers=1)
    workers[0].run()
    assert_used(cluster, [1, 1, 1, 0, 1, 1, 1, 1, 1, 1])
    assert "memory partition 0 offset 3: 'three', which is not a number; the row is skipped" in caplog.text


def test_a_source_that_is_away_is_waited_for(workers):
    source = Memory(1)
    source.add(0, *range(20))
    source.away = ConnectionError("no route to host")
    cluster = job(source, workers, 20, num_workers=1, recovery_timeout_secs=30)
    worker = workers[0]
    worker.begin()
    assert not worker.make(1)
    source.away = None
    make_until([worker], lambda: numbers_used(cluster) == 20, "it is back")


@pytest.mark.long
@pytest.mark.parametrize(
    "error, raised, text",
    [
        (ConnectionError("no route to host"), UnreachableError, "memory could not be reached for 0.2s"),
        (DataError("wrong password."), DataError, "wrong password"),
    ],
)
def test_a_source_that_stays_away_ends_the_job(workers, error, raised, text):
    source = Memory(1)
    source.away = error
    job(source, workers, num_workers=1, recovery_timeout_secs=0.2)
    worker = workers[0]
    worker.begin()

    def fails() -> bool:
        try:
            worker.shares.has_work()
        except raised as found:
            return text in str(found)
        return False

    eventually(fails, 10, "the error")
