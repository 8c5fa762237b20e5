"""The queue never waits, counts what it drops, and says each thing once."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from ps_train.observe.tracking.tracked_run import TrackedRun
from ps_train.observe.tracking.tracking import Findings, RefusedRunError, Tracking
from tests.support.machine.processes import eventually


class FakeTracker:
    """Remembers what it gets; a function may raise or hang before each call."""

    def __init__(self, before=lambda name: None):
        self.before, self.calls, self.points, self.tags, self.ends = before, [], [], {}, []
        self.is_abandoned, self.load_secs = False, 0.0

    def _called(self, name):
        self.calls.append(name)
        self.before(name)

    def load(self):
        time.sleep(self.load_secs)

    def begin(self, run):
        self._called("begin")
        run.keep_id("fake", "run 7")
        return "http://tracker/7"

    def send(self, points, tags):
        self._called("send")
        self.points += points
        self.tags |= tags

    def abandon(self):
        self.is_abandoned = True

    def end(self, end):
        self._called("end")
        self.ends.append((end.state, [*end.files]))


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="ps_train.observe.tracking")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def run(tmp_path):
    return lambda: TrackedRun("run", "m", str(tmp_path), {}, {}, {}, "plan")


def tracking_of(tracker, **options):
    return Tracking(tracker, "fake", **{"send_secs": 0.02, **options})


def test_points_arrive_once_and_in_order_with_texts_and_the_end(run, lines, caplog):
    tracker = FakeTracker()
    tracking = tracking_of(tracker)
    tracking.begin(run)
    tracking.begin(run)  # after a recovery
    for step in range(250):
        tracking.add(step, {"loss": 1.0 / (step + 1)})
    tracking.tag("checkpoint", "m/model.ckpt-250")
    tracking.end("done", ["m/report.html"])
    tracking.end("failed")
    assert [point.step for point in tracker.points] == [*range(250)]
    assert tracker.points[3].values == {"loss": 0.25} and abs(tracker.points[3].time - time.time()) < 60
    assert tracker.tags == {"checkpoint": "m/model.ckpt-250"} and tracker.ends == [("done", ["m/report.html"])]
    assert tracker.calls.count("begin") == 1 and lines() == []
    assert "track    http://tracker/7" in caplog.messages


@pytest.mark.parametrize("where", ["begin", "send", "end"])
def test_a_tracker_that_hangs_delays_neither_a_step_nor_the_end(run, lines, where):
    hangs, released = threading.Event(), threading.Event()

    def before(name):
        if name == where:
            hangs.set()
            released.wait()

    tracker = FakeTracker(before)
    tracking = tracking_of(tracker, most_points=10)
    tracking.begin(run)
    if where != "end":
        tracking.add(0, {"loss": 1.0})
        assert hangs.wait(10)
    began = time.monotonic()
    for step in range(1, 1001):
        tracking.add(step, {"loss": 1.0})
    adding = time.monotonic() - began
    tracking.end("done", within_secs=0.3)
    assert adding < 1.0 and 0.1 < time.monotonic() - began < 5.0
    assert tracker.is_abandoned
    released.set()
    (line,) = lines()
    assert {"begin": "nothing was sent", "send": "1001 of 1001 points were not sent", "end": "of 1000 points"}[
        where
    ] in line


def test_a_full_queue_drops_the_oldest_points_and_the_end_counts_them(run, lines):
    goes_on = threading.Event()
    tracker = FakeTracker(lambda name: goes_on.wait(10) and None)
    tracking = tracking_of(tracker, most_points=10)
    tracking.begin(run)
    for step in range(25):
        tracking.add(step, {"loss": 1.0})
    goes_on.set()
    tracking.end("done")
    assert [point.step for point in tracker.points] == [*range(15, 25)]
    assert lines() == ["track=fake: 15 of 25 points were not sent"]


def test_a_tracker_that_comes_back_gets_all_points_after_one_line(run, lines):
    is_down = True

    def before(name):
        if is_down:
            raise ConnectionError("http://tracker does not answer")

    tracker = FakeTracker(before)
    tracking = tracking_of(tracker)
    tracking.begin(run)
    tracking.add(1, {"loss": 1.0})
    eventually(lambda: len(tracker.calls) >= 3, 10, "several attempts")
    is_down = False
    tracking.add(2, {"loss": 1.0})
    tracking.end("done")
    assert [point.step for point in tracker.points] == [1, 2] and tracker.ends == [("done", [])]
    assert lines() == ["track=fake: http://tracker does not answer; training continues"]


@pytest.mark.parametrize("error", [ConnectionError("it is down"), RefusedRunError("no key")])
def test_a_tracker_that_is_down_or_refuses_costs_one_line(run, lines, error):
    def before(name):
        raise error

    tracker = FakeTracker(before)
    tracking = tracking_of(tracker)
    tracking.begin(run)
    tracking.add(1, {"loss": 1.0})
    eventually(lines, 10, "the line")
    tracking.add(2, {"loss": 1.0})
    began = time.monotonic()
    tracking.end("done")
    assert time.monotonic() - began < 3.0
    (line,) = lines()
    assert str(error) in line
    assert isinstance(error, ConnectionError) or tracker.calls == ["begin"]


def finding(state, text="12 % of a step", task=""):
    return {"rule": "sync_share", "task": task, "state": state, "title": "share", "text": text, "advice": "use sync"}


def test_health_and_new_evaluations_are_sent_once(run, lines):
    health, evaluations = [finding("ok"), finding("warn", task="worker:1")], {100: {"auc": 0.7}}
    tracker = FakeTracker()
    tracking = tracking_of(tracker, findings=Findings(lambda: dict(evaluations), lambda: list(health)))
    tracking.begin(run)
    eventually(lambda: tracker.points, 10, "the evaluation")
    eventually(lambda: tracker.tags, 10, "the finding")
    assert tracker.tags == {"health.sync_share.worker:1": "share: 12 % of a step; use sync"}
    health[:] = [finding("ok")]
    evaluations[200] = {"auc": 0.8}
    tracking.end("done")
    assert tracker.tags == {"health.sync_share.worker:1": "ok"}
    assert [(point.step, point.values) for point in tracker.points] == [
        (100, {"eval/auc": 0.7}),
        (200, {"eval/auc": 0.8}),
    ]

    later = FakeTracker()  # the next process of the run
    tracking = tracking_of(later, findings=Findings(lambda: dict(evaluations)))
    tracking.begin(run)
    eventually(lambda: later.calls, 10, "the begin")
    time.sleep(0.1)
    evaluations[300] = {"auc": 0.9}
    tracking.end("done")
    assert [point.step for point in later.points] == [300]


def test_without_a_tracker_nothing_happens(run):
    tracking = Tracking(None)
    tracking.begin(run)
    tracking.add(1, {"loss": 1.0})
    tracking.tag("a", "b")
    tracking.end("done")
    assert not [thread for thread in threading.enumerate() if thread.name == "tracking"]


@pytest.mark.parametrize("state", ["done", "stopped"])
def test_a_job_that_is_done_waits_for_the_import_of_the_library(lines, run, state):
    tracker = FakeTracker()
    tracker.load_secs = 0.5
    tracking = tracking_of(tracker)
    tracking.begin(run)
    tracking.add(1, {"loss": 0.5})
    tracking.end(state, within_secs=0.2)
    assert [point.step for point in tracker.points] == ([1] if state == "done" else [])
    assert lines() == ([] if state == "done" else ["track=fake: nothing was sent, it does not answer"])
