"""Cuts by event time: each checkpoint of one has all rows before its time, and none after.

It is checked by the values in the checkpoints: each use of a number adds one to its element of the model's variables.
The event time of number n is n seconds after BEGIN.
"""

from __future__ import annotations

import json
import time
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.run_directory.checkpoint_contents import EVENT_CUT_KEY
from ps_train.engine.run_directory.cut_checkpoints import read_cuts
from ps_train.training.duties.event_cuts import EventCuts
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.data.recording import NAMES, SharingWorker, used
from tests.support.data.unbounded import Memory, RecordingRows
from tests.support.long import long

BEGIN = 1_000_000_000_000
FIELDS = {
    "sharding": "dynamic", "batch_size": 4, "max_steps": 100_000, "max_batch_wait_secs": 0.05, "save_event_secs": 100,
    "max_event_wait_secs": 0.3,
}  # fmt: skip


class CuttingWorker(SharingWorker):
    """Worker 0, which takes the cuts as the chief does: while it makes no steps."""

    def __init__(self, cluster: InProcessCluster, directory: str) -> None:
        super().__init__(cluster, 0)
        self.lines: list[str] = []
        setting: Any = types.SimpleNamespace(
            prepared=types.SimpleNamespace(job=cluster.job),
            joined=types.SimpleNamespace(directory=directory),
            console=types.SimpleNamespace(line=self.lines.append),
        )
        saving: Any = types.SimpleNamespace(save_at_rest=self.save)
        self.cuts = EventCuts(setting, self.gates[0], types.SimpleNamespace(step=0), saving)

    def save(self, session) -> int:
        return self.cluster.snapshots.save(session)

    def _finds_nothing(self) -> bool:
        nothing = super()._finds_nothing()
        if nothing:
            self.cuts.advance(self.session)
        return nothing


@pytest.fixture
def started(tmp_path):
    made = []

    def start(source, count, update="async", num_ps=2, num_workers=2, restore=False, **fields):
        model = RecordingRows(source, count, ones=update == "sync")
        cluster = InProcessCluster(
            model, num_ps, num_workers, directory=tmp_path, update=update, **{**FIELDS, **fields}
        )
        cluster.start(restore)
        workers = [CuttingWorker(cluster, str(tmp_path))]
        workers += [SharingWorker(cluster, index) for index in range(1, num_workers)]
        made.extend(workers)
        return cluster, workers

    yield start
    for worker in made:
        worker.shares.close()


def source_of(partitions=3):
    source = Memory(partitions)
    source.time_of = lambda number: BEGIN + number * 1000
    return source


def assert_cut(directory, number, count):
    """The checkpoint of the cut before a number has all numbers before it, and no other."""
    (cut,) = [cut for cut in read_cuts(str(directory)) if cut.event_time == BEGIN + number * 1000]
    values = tf.train.load_checkpoint(str(directory / f"model.ckpt-{cut.step}"))
    for name in NAMES:
        np.testing.assert_array_equal(values.get_tensor(name), [1.0] * number + [0.0] * (count - number))
    assert values.get_tensor(EVENT_CUT_KEY).tolist() == [cut.event_time, 0]
    return cut


@pytest.mark.parametrize("update", ["async", long("sync"), long("bounded")])
def test_a_cut_has_all_rows_before_its_time_and_none_after(started, tmp_path, update):
    source, count = source_of(), 350
    for number in range(count):
        source.add(
            number % 3 if number < 100 or number >= 200 else number % 2, number
        )  # partition 2 leaves a window out
    source.ends = {partition: len(rows) for partition, rows in enumerate(source.rows)}
    cluster, workers = started(source, count, update)
    in_parallel([worker.run for worker in workers], within_secs=60)
    for counts in used(cluster):
        np.testing.assert_array_equal(counts, 1)
    first = assert_cut(tmp_path, 100, count)
    assert first.next_event_time == BEGIN + 100_000
    assert_cut(tmp_path, 200, count)
    assert_cut(tmp_path, 300, count)
    found = json.loads((tmp_path / "event_cuts.json").read_text())
    assert [*found] == ["2001-09-09T01:48:20Z", "2001-09-09T01:50:00Z", "2001-09-09T01:51:40Z"]
    assert found["2001-09-09T01:48:20Z"]["checkpoint"] == f"model.ckpt-{first.step}"
    assert workers[0].lines[0] == f"cut of 2001-09-09T01:48:20Z: the checkpoint of step {first.step}"
    assert all(worker.made for worker in workers)


@pytest.mark.long
def test_cuts_without_rows_between_them_are_one(started, tmp_path):
    source, count = source_of(1), 510
    source.add(0, *range(10), *range(500, 510))
    source.ends = {0: 20}
    _, workers = started(source, count, num_workers=1)
    workers[0].run()
    (cut,) = read_cuts(str(tmp_path))
    assert (cut.event_time, cut.next_event_time) == (BEGIN + 100_000, BEGIN + 500_000)


@pytest.mark.long
def test_a_partition_without_rows_holds_a_cut_up_for_a_while_and_its_late_rows_are_said(started, tmp_path, caplog):
    source, count = source_of(2), 260
    source.add(0, *range(40), *range(100, 140), *range(200, 220))
    source.add(1, *range(40, 60))
    cluster, workers = started(source, count)

    def write() -> None:
        deadline = time.monotonic() + 60
        while not read_cuts(str(tmp_path)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        source.add(1, *range(60, 80))  # they belong to the first cut
        source.add(1, *range(240, 260))
        source.ends = {0: 100, 1: 60}

    in_parallel([write, *(worker.run for worker in workers)], within_secs=90)
    cuts = read_cuts(str(tmp_path))
    assert [cut.event_time for cut in cuts] == [BEGIN + 100_000, BEGIN + 200_000]
    for cut, numbers in zip(cuts, [{*range(60)}, {*range(80), *range(100, 140)}], strict=True):
        values = tf.train.load_checkpoint(str(tmp_path / f"model.ckpt-{cut.step}")).get_tensor("first")
        assert {*np.flatnonzero(values)} == numbers
    assert "memory partition 1 offset 20: rows before the cut of 2001-09-09T01:48:20Z" in caplog.text
    assert cluster.values()["first"].sum() == 160


@pytest.mark.long
@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_job_that_is_restored_at_a_cut_goes_on_to_the_next(started, tmp_path, is_recorded):
    source, count = source_of(2), 300
    for number in range(count):
        source.add(number % 2, number)
    source.ends = {0: 150, 1: 150}
    _, workers = started(source, count)
    in_parallel([lambda worker=worker: worker.run(lambda: bool(read_cuts(str(tmp_path)))) for worker in workers])
    cut = assert_cut(tmp_path, 100, count)
    for worker in workers:
        worker.shares.close()
    for path in tmp_path.glob("model.ckpt-*"):
        if not path.name.startswith(f"model.ckpt-{cut.step}."):
            path.unlink()
    if not is_recorded:  # the chief was killed between the checkpoint and its entry
        (tmp_path / "event_cuts.json").unlink()
    again, workers = started(source, count, num_ps=1, num_workers=2, restore=True)
    workers[0].cuts.opened(None, types.SimpleNamespace(step=cut.step))
    in_parallel([worker.run for worker in workers], within_secs=60)
    for counts in used(again):
        np.testing.assert_array_equal(counts, 1)
    assert_cut(tmp_path, 100, count)
    assert_cut(tmp_path, 200, count)


def test_a_row_without_an_event_time_is_malformed(started, caplog):
    source = source_of(1)
    source.time_of = lambda number: {3: 0, 5: 1e15, 7: "soon"}.get(number, BEGIN + number)
    source.add(0, *range(10))
    source.ends = {0: 10}
    cluster, workers = started(source, 10, num_workers=1)
    workers[0].run()
    np.testing.assert_array_equal(used(cluster)[0], [1, 1, 1, 0, 1, 0, 1, 0, 1, 1])
    assert "memory partition 0 offset 3: it has no event time (0), which save_event_secs needs; the row" in caplog.text
    assert "offset 5: its event time, 33658-09-27T01:46:40Z, is more than an hour ahead of the clock" in caplog.text
    assert "offset 7: its event time is 'soon', which is not a number of ms since 1970" in caplog.text


@pytest.mark.parametrize("update", ["async", "sync", "bounded"])
def test_first_rows_without_an_event_time_hold_up_nobody(started, update):
    source = source_of(2)
    source.time_of = lambda number: 0 if number < 2 else BEGIN + number
    for number in range(20):
        source.add(number % 2, number)
    source.ends = {0: 10, 1: 10}
    cluster, workers = started(source, 20, update)
    in_parallel([worker.run for worker in workers], within_secs=60)
    for counts in used(cluster):
        np.testing.assert_array_equal(counts, [0, 0, *[1] * 18])
