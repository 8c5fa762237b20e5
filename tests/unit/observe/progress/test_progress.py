"""The event files: dense at the beginning of a run, small after a day of it, complete at its ends."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.console import Progress
from ps_train.config.job import Job
from ps_train.engine.updates.counters.counter_values import RunCounterValues
from ps_train.observe.progress.eval_events import read_eval_metrics
from ps_train.observe.progress.progress import EventFile, ProgressHook

MIB = 1 << 20
STEPS_PER_SEC = 100
WORKERS = 2


@dataclasses.dataclass
class Reported:
    """A tally whose report is made once."""

    report: Any

    gauges: dict[Any, int] = dataclasses.field(default_factory=dict)

    def staleness_report(self) -> Any:
        return self.report

    def waiting_report(self) -> None:
        return None


class Run:
    """A chief's progress hook under a clock that the test moves."""

    def __init__(self, directory: pathlib.Path, **fields: Any) -> None:
        self.directory, self.now, self.shown = directory, 1000.0, []  # type: ignore[var-annotated]
        self.step = 0
        job = Job(**{"max_steps": 10**9, **fields})
        nothing = tf.constant(0)
        self.hook = ProgressHook(
            {"step": nothing, "loss": nothing},
            job,
            lambda **counted: self._tally,
            self._show,
            EventFile(str(directory)),
            clock=lambda: self.now,
        )
        self.hook.resumed(0)
        self.hook.loss = 1.0
        seen = np.ones([WORKERS, 24])  # a histogram of so many bars for each worker
        tally = RunCounterValues("async", ["worker:0", "worker:1"], WORKERS, 1.0, 0, 0, seen, np.zeros([WORKERS, 2]))
        self._tally = Reported(tally.staleness_report())

    def _show(self, progress: Progress, counters: RunCounterValues) -> None:
        self.shown.append(self.now)

    def go_on(self, secs: float, every: float = 2.0) -> None:
        end = self.now + secs
        while self.now < end:
            self.now += every
            self.step += round(every * STEPS_PER_SEC)
            self.hook.observe(self.step, {"examples": self.step * 32.0})

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.directory.glob("events.out.tfevents.*"))

    def points(self) -> list[int]:
        """The steps of the points, in the order in which they were written."""
        return [event.step for event in self._events() if event.summary.value]

    def starts(self) -> list[int]:
        return [event.step for event in self._events() if event.HasField("session_log")]

    def _events(self) -> Iterator[Any]:
        (path,) = self.directory.glob("events.out.tfevents.*")
        return v1.train.summary_iterator(str(path))


@pytest.fixture
def begun(tmp_path: pathlib.Path) -> Callable[..., Run]:
    return lambda **fields: Run(tmp_path, **fields)


def gaps(steps: list[int]) -> np.ndarray[Any, Any]:
    """Seconds between points."""
    return np.diff(steps) / STEPS_PER_SEC


def test_a_day_at_default_settings_is_dense_at_the_beginning_and_stays_within_a_few_megabytes(
    begun: Callable[..., Run],
) -> None:
    run = begun()
    run.go_on(24 * 3600)
    run.hook.close()
    assert run.bytes < 4 * MIB
    assert len(run.shown) > 40_000  # the console is as before
    steps = run.points()
    assert steps == sorted(set(steps))
    assert 1000 < len(steps) < 2000
    seconds = np.array(steps) / STEPS_PER_SEC
    assert np.all(np.diff(seconds[seconds < 290]) == 2.0)
    late = seconds[seconds > 310]
    assert np.all(np.diff(late)[:-1] >= 10)
    assert np.all(np.diff(late) <= np.maximum(12, 0.005 * late[1:]))  # the shape of a curve is kept


def test_a_longer_log_secs_is_kept(begun: Callable[..., Run]) -> None:
    run = begun(log_secs=60.0)
    run.go_on(3600)
    run.hook.close()
    assert np.all(gaps(run.points()) == 60.0)


def test_the_first_and_the_last_point_are_always_written(begun: Callable[..., Run]) -> None:
    run = begun()
    run.go_on(4000)
    last = run.step
    assert run.points()[0] == 4 * STEPS_PER_SEC  # the first observation begins the first interval
    assert run.points()[-1] < last
    run.hook.close()
    assert run.points()[-1] == last
    run.hook.close()  # from another thread, when the job is stopped
    assert run.points().count(last) == 1


def test_the_point_of_the_last_step_is_written_at_once(begun: Callable[..., Run]) -> None:
    run = begun(max_steps=4000 * STEPS_PER_SEC)
    run.go_on(4000)
    assert run.points()[-1] == 4000 * STEPS_PER_SEC


def test_after_a_resume_the_last_point_before_it_and_the_first_after_it_are_written(begun: Callable[..., Run]) -> None:
    run = begun()
    run.go_on(4001)
    before = run.step
    run.hook.resumed(before - 5000)
    run.step = before - 5000
    run.go_on(6)
    assert run.starts() == [before - 5000]
    assert run.points()[-2:] == [before, before - 5000 + 4 * STEPS_PER_SEC]


def test_a_run_that_loses_a_ps_every_minute_does_not_begin_anew(begun: Callable[..., Run]) -> None:
    run = begun()
    for _ in range(4 * 60):
        run.go_on(60)
        run.hook.resumed(run.step)
    run.hook.close()
    assert len(run.points()) < 150 + 2 * 4 * 60 + 4 * 360  # at first, around each loss, every ten seconds


def test_closing_a_hook_that_never_had_a_session_does_nothing(tmp_path: pathlib.Path) -> None:
    nothing = tf.constant(0)
    hook = ProgressHook({"step": nothing, "loss": nothing}, Job(), RunCounterValues, print, EventFile(str(tmp_path)))
    hook.close()
    assert not list(tmp_path.iterdir())


def test_a_disk_that_refuses_points_loses_them_and_takes_later_ones(tmp_path, caplog, monkeypatch):
    file = EventFile(str(tmp_path))
    refusals = [RuntimeError("No space left on device\n\tFailed to flush 1 events"), OSError("full")]

    class Refuses:
        def add_summary(self, summary, step):
            raise refusals.pop()

    monkeypatch.setattr(file, "_new_writer", Refuses)
    file.add_values({"a": 1.0}, 1)
    file.add_values({"a": 2.0}, 2)
    assert refusals == []
    assert caplog.text.count("could not be written") == 1
    monkeypatch.undo()
    file.add_values({"a": 3.0}, 3)
    assert read_eval_metrics(str(tmp_path))[3] == {"a": 3.0}
