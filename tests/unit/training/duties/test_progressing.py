"""The chief's progress: what is counted from where, and what its end leaves in file, page and tracker."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.observe.tracking.tracking import END_SECS, STOPPED_SECS
from ps_train.training.duties import progressing
from ps_train.training.duties.duty import End
from ps_train.training.duties.progressing import ModelSummaries, Progressing, TrackingRun


class File:
    """An event file that remembers its points."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.points: list[tuple[int, dict[str, float]]] = []

    def begin(self, step: int) -> None:
        self.begun.append(step)

    def add(self, summary: Any, step: int) -> None:
        self.points.append((step, {value.tag: value.simple_value for value in summary.value}))

    def add_values(self, values: dict[str, float], step: int) -> None:
        self.points.append((step, values))


class Tracking:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def add(self, step: int, values: dict[str, float]) -> None:
        self.calls.append(("add", step, values))

    def tag(self, name: str, text: str) -> None:
        self.calls.append((name, text))

    def begin(self, make: Any) -> None:
        self.calls.append(make)

    def end(self, *arguments: Any) -> None:
        self.calls.append(("end", *arguments))


class Chief:
    """The progress of a chief, in a graph with counters; `add` makes steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **job: Any) -> None:
        self.now, self.board, self.ends, self.observed = 100.0, list[Any](), list[Any](), list[Any]()
        monkeypatch.setattr(progressing, "time", types.SimpleNamespace(monotonic=lambda: self.now))
        self.file, self.tracking, self.lines = File(), Tracking(), list[str]()
        self.session = v1.Session(graph=tf.Graph())
        with self.session.graph.as_default():
            counters = RunCounters(
                *(v1.get_variable(name, initializer=value, use_resource=True) for name, value in (
                    ("examples", np.float64(0)), ("skipped", np.int64(0)), ("dropped", np.int64(0)),
                    ("staleness", np.zeros([1, 3], np.int64)), ("waiting", np.zeros([1, 2])),
                ))
            )  # fmt: skip
            step = v1.get_variable("step", initializer=np.int64(0), use_resource=True)
            self._add = [step.assign_add(1), counters.examples.assign_add(8.0)]
            self._step, self._counters = step, counters
            self.step: Any = types.SimpleNamespace(
                ps=types.SimpleNamespace(counters=counters, global_step=step), gauges=dict, graph=self.session.graph,
                ops=types.SimpleNamespace(step_after=step.read_value()),
                worker=types.SimpleNamespace(loss=tf.constant(0.5)),
            )  # fmt: skip
            self.setting: Any = types.SimpleNamespace(
                prepared=types.SimpleNamespace(job=Job(max_steps=100, log_secs=10.0, **job)), step=self.step,
                agreed=types.SimpleNamespace(pushers=("worker:0",), declared=1), now=types.SimpleNamespace(next_step=7),
                console=types.SimpleNamespace(progress=self.lines.append),
            )  # fmt: skip
            board = types.SimpleNamespace(progress=lambda *shown: self.board.append(shown), saved=self.board.append)
            observer = types.SimpleNamespace(board=board, end=lambda *end: self.ends.append(end), report="report.html")
            self.joined: Any = types.SimpleNamespace(observer=observer, directory="m")
            saving: Any = types.SimpleNamespace(
                shown=lambda: "checkpoint 40", observe=lambda step, session: self.observed.append(step)
            )
            self.duty = Progressing(self.setting, self.joined, saving, self.file, self.tracking)  # type: ignore[arg-type]
            self.duty._hook._clock = lambda: self.now
            self.session.run(v1.global_variables_initializer())

    def add(self, count: int) -> None:
        for _ in range(count):
            self.session.run(self._add)

    def open(self, step: int) -> None:
        start: Any = types.SimpleNamespace(step=step)
        self.duty.opened(self.session, start)


@pytest.fixture
def chief(monkeypatch: pytest.MonkeyPatch) -> Chief:
    return Chief(monkeypatch)


def test_a_summary_counts_from_the_first_session_of_this_process(chief: Chief) -> None:
    assert chief.duty.known_step is None
    chief.add(40)
    chief.open(40)
    chief.now += 30.0
    chief.add(5)
    chief.open(43)  # after a recovery
    chief.now += 2.0
    found = chief.duty.summary(chief.session)
    assert (found.step, found.steps_made, found.examples_made, found.wall_secs) == (45, 5, 40.0, 32.0)
    assert (found.loss, found.counters.examples, found.counters.names) == (None, 360.0, ["worker:0"])
    assert chief.duty.known_step == chief.duty.step == 43 and chief.file.begun == [40, 43]


def test_a_step_shows_itself_on_console_page_file_and_tracker(chief: Chief) -> None:
    chief.open(0)
    (hook,) = chief.duty.hooks
    for secs in (1.0, 20.0):
        chief.now += secs
        chief.add(1)
        values = types.SimpleNamespace(results=chief.session.run(hook.before_run(None).fetches))
        hook.after_run(None, values)
    assert len(chief.lines) == 1 and chief.lines[0].startswith("step 2/100")
    ((progress, counters, checkpoint),) = chief.board
    assert (progress.step, counters.examples, checkpoint) == (2, 16.0, "checkpoint 40")
    assert [step for step, _ in chief.file.points] == [2] == [call[1] for call in chief.tracking.calls]
    assert chief.duty.summary(chief.session).loss == 0.5


def test_while_only_others_train_their_steps_are_shown_and_saved(chief: Chief) -> None:
    chief.open(0)
    for _ in range(2):
        chief.now += 20.0
        chief.add(3)
        chief.duty.waiting(chief.session)
    assert chief.observed == [3, 6] and chief.duty.step == 6 and chief.lines[0].startswith("step 6/100")


def test_scores_have_a_name_of_their_own_in_file_and_tracker(chief: Chief) -> None:
    chief.duty.add_scores(70, {"auc": 0.75})
    assert chief.file.points == [(70, {"test/auc": 0.75})]
    assert chief.tracking.calls == [("add", 70, {"test/auc": 0.75})]


@pytest.mark.parametrize(("was_open", "state"), [(True, "done"), (True, ""), (False, "failed")])
def test_the_end_is_told_to_the_page_unless_another_process_is_the_chief(
    chief: Chief, was_open: bool, state: str
) -> None:
    if was_open:
        chief.open(0)
    chief.duty.ended(End(state, "cause"))
    assert chief.board == ["checkpoint 40"] * was_open
    assert chief.ends == ([(state, "cause")] if state else [])


@pytest.mark.parametrize(
    ("end", "calls"),
    [
        (End("done"), [("end", "done", ["report.html"], END_SECS)]),
        (End("stopped"), [("end", "stopped", ["report.html"], STOPPED_SECS)]),
        (End("failed", "odd"), [("cause", "odd"), ("end", "failed", ["report.html"], END_SECS)]),
        (End(""), []),
    ],
)
def test_a_tracker_is_told_the_end_and_its_cause(chief: Chief, end: End, calls: list[Any]) -> None:
    chief.setting.agreed.plan = "plan"
    TrackingRun(chief.setting, chief.joined, chief.tracking).ended(end)  # type: ignore[arg-type]
    assert chief.tracking.calls == calls


def test_a_tracked_run_has_the_id_of_the_run(chief: Chief, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progressing, "tracked_run", lambda *facts: facts)
    monkeypatch.setattr(progressing, "source_file_of", lambda model: f"{model}.py")
    prepared, chief.setting.agreed.plan = chief.setting.prepared, "plan"
    prepared.variables, prepared.model = types.SimpleNamespace(described=lambda: "variables"), "net"
    start: Any = types.SimpleNamespace(state=types.SimpleNamespace(ready=types.SimpleNamespace(run_id="abc")))
    TrackingRun(chief.setting, chief.joined, chief.tracking).opened(chief.session, start)  # type: ignore[arg-type]
    (make,) = chief.tracking.calls
    assert make() == (prepared.job, "plan", "variables", "m", "abc", "net.py")


@pytest.mark.parametrize(("steps", "count", "ends"), [(0, 1, 0), (5, 0, 0), (5, 1, 5)])
def test_a_models_summaries_end_a_burst_where_they_are_due(
    monkeypatch: pytest.MonkeyPatch, steps: int, count: int, ends: int
) -> None:
    chief = Chief(monkeypatch, summary_steps=steps)
    start: Any = types.SimpleNamespace(step=4)
    with chief.session.graph.as_default():
        monkeypatch.setattr(progressing, "summaries_of", lambda graph: [tf.constant("summary")] * count)
        duty = ModelSummaries(chief.setting, tf.constant(5), chief.file)  # type: ignore[arg-type]
        duty.opened(chief.session, start)
    assert duty.bursts.ends == ends and len(duty.hooks) == bool(ends)
    for hook in duty.hooks:
        fetched = hook.before_run(None).fetches["summaries"]  # type: ignore[arg-type, union-attr]
        assert len(fetched) == 1, "the next step, 7, passes a multiple"
        start.step = 6
        duty.opened(chief.session, start)
        assert not hook.before_run(None).fetches["summaries"]  # type: ignore[arg-type, union-attr]
