"""The main thread of a training task: what ends it, and what each end is told to whom."""

from __future__ import annotations

import contextlib
import signal
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ps_train.base.errors import ConfigError, RefusedError
from ps_train.cluster.membership.records import STOP, StopRequest, TaskState
from ps_train.cluster.membership.run_status import RunState, StatusFile, read_status
from ps_train.config.job import Job, Task
from ps_train.training.duties.duty import End
from ps_train.training.tasks import worker


class Events:
    """Events that the test gives, one at each wait."""

    def __init__(self, *happen: Callable[[], None]) -> None:
        self.signum: int | None = None
        self.terminal_error: BaseException | None = None
        self._happen, self._woken = list(happen), threading.Event()

    def wait(self) -> None:
        if self._happen:
            self._happen.pop(0)()
        else:
            assert self._woken.wait(20), "an event"

    def wake(self) -> None:
        self._woken.set()

    def set_terminal_error(self, error: BaseException) -> None:
        self.terminal_error = error


class Made:
    """A training, whose thread does what the test says; `calls` are those of the main thread."""

    def __init__(self, train: Callable[[], None] = lambda: None, task: str = "worker:1", **job: Any) -> None:
        self.calls: list[Any] = []
        self.release = threading.Event()
        self.train, self.events = train, Events()
        self.stores = [dict[str, str](), dict[str, str]()]
        self.stop_request: StopRequest | None = None
        is_chief = task == "worker:0"
        heartbeat = types.SimpleNamespace(
            announce_leaving=lambda state=TaskState.INPUT_ENDED: self.calls.append(("leaving", state)),
            on_each_ps=lambda call: [call(index) for index in (0, 1)],
        )
        made = self

        class Beat(types.SimpleNamespace):
            @property
            def stop_request(self) -> StopRequest | None:
                return made.stop_request

        self.has_begun, self.ps_of = True, None
        settings = {"heartbeat_timeout_secs": 3.0, **job}
        self.prepared = types.SimpleNamespace(
            job=Job(**settings), is_chief=is_chief, task=task,
            cluster=types.SimpleNamespace(ps_of=lambda task: self.ps_of),
        )  # fmt: skip
        stores = [types.SimpleNamespace(set=store.__setitem__) for store in self.stores]
        self.joined = types.SimpleNamespace(events=self.events, heartbeat=Beat(**vars(heartbeat)), stores=stores)

    def run(self) -> None:
        self.train()

    def leave_job(self, within_secs: float) -> None:
        self.calls.append(("leave", within_secs))

    def ended(self, end: End) -> None:
        self.calls.append(end)

    def supervised(self, *happen: Callable[[], None]) -> int:
        self.events._happen = list(happen)
        training: Any = self
        try:
            return worker._supervise(training)
        finally:
            self.release.set()

    def signal(self) -> None:
        self.events.signum = signal.SIGTERM


@pytest.fixture(autouse=True)
def ends(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of the ends of a job."""
    calls: list[Any] = []
    monkeypatch.setattr(worker, "save_last", lambda training, secs: calls.append(("save", secs)))
    monkeypatch.setattr(worker, "stop_job", lambda joined, stop: (calls.append(stop), 128 + stop.signum)[1])

    def exit_code(error: BaseException, training: Any) -> int:
        calls.append(error)
        return 77

    monkeypatch.setattr(worker, "exit_code", exit_code)
    return calls


def waiting() -> Made:
    made = Made()
    made.train = lambda: made.release.wait(20) and None
    return made


def test_a_training_that_ends_well_leaves_with_zero() -> None:
    made = Made()
    assert made.supervised() == 0 and made.calls == [("leaving", TaskState.INPUT_ENDED)]


@pytest.mark.parametrize("error", [ValueError("a"), KeyboardInterrupt()])
def test_each_error_of_the_training_thread_is_the_end_of_the_main_thread(ends: list[Any], error: BaseException) -> None:
    def train() -> None:
        raise error

    assert Made(train).supervised() == 77 and ends == [error]


def test_an_error_counts_more_than_the_end_of_the_training(ends: list[Any]) -> None:
    made = Made()
    error = ConfigError("x")

    def happen() -> None:
        assert made.events._woken.wait(20)
        made.events.terminal_error = error

    assert made.supervised(happen) == 77 and ends == [error] and made.calls == []


def test_a_signal_to_a_worker_is_told_to_each_ps_once_and_it_waits_for_the_outcome(ends: list[Any]) -> None:
    made = waiting()
    error = ConfigError("the outcome")

    def happen() -> None:
        for store in made.stores:
            assert StopRequest.from_json(store.pop(STOP)) == StopRequest("worker:1", signal.SIGTERM)

    made.joined.events.set_terminal_error = None  # type: ignore[method-assign, assignment]
    code = made.supervised(made.signal, happen, lambda: setattr(made.events, "terminal_error", error))
    assert code == 77 and ends == [error] and made.stores == [{}, {}]


@pytest.mark.parametrize(
    ("has_begun", "ps_of", "task", "ends_at_once"),
    [(False, None, "worker:1", True), (True, None, "worker:1", False), (False, 1, "worker:1", False)],
)
def test_before_there_is_a_model_a_worker_without_variables_ends_at_once(
    has_begun: bool, ps_of: int | None, task: str, ends_at_once: bool
) -> None:
    made = waiting()
    made.has_begun, made.ps_of = has_begun, ps_of  # type: ignore[assignment]
    end = ConfigError("the outcome")
    code = made.supervised(made.signal, lambda: setattr(made.events, "terminal_error", end))
    assert code == (143 if ends_at_once else 77) and (STOP in made.stores[0]) != ends_at_once


def test_the_chief_saves_and_stops_the_job_at_a_signal_of_its_own(ends: list[Any]) -> None:
    made = Made(task="worker:0")
    made.train = lambda: made.release.wait(20) and None
    made.has_begun = False
    assert made.supervised(made.signal) == 143
    assert ends == [("save", 6.0), StopRequest("worker:0", signal.SIGTERM)]
    assert StopRequest.from_json(made.stores[1][STOP]) == StopRequest("worker:0", signal.SIGTERM)


def test_the_chief_stops_the_job_for_another_task_and_names_it(ends: list[Any]) -> None:
    made = Made(task="worker:0")
    made.train = lambda: made.release.wait(20) and None
    request = StopRequest("ps:1", signal.SIGINT)
    assert made.supervised(lambda: setattr(made, "stop_request", request)) == 130
    assert ends == [("save", 6.0), request] and STOP not in made.stores[0]
    other = waiting()
    other.stop_request = request
    assert other.supervised(lambda: None, lambda: setattr(other.events, "terminal_error", ConfigError("x"))) == 77


@pytest.mark.parametrize(("limit", "secs"), [(3.0, 3.0), (60.0, 5.0)])
def test_an_elastic_worker_leaves_the_job_which_goes_on(ends: list[Any], limit: float, secs: float) -> None:
    made = Made(max_workers=4, heartbeat_timeout_secs=limit)
    made.train = lambda: made.release.wait(20) and None
    assert made.prepared.job.is_elastic
    assert made.supervised(made.signal) == 0
    assert made.calls == [("leave", secs), ("leaving", TaskState.LEFT)] and made.stores == [{}, {}] and ends == []


def test_an_outcome_that_comes_while_it_leaves_is_that_of_the_job(ends: list[Any]) -> None:
    made = Made(max_workers=4)
    made.train = lambda: made.release.wait(20) and None
    end = ConfigError("the outcome")
    made.leave_job = lambda within_secs: setattr(made.events, "terminal_error", end)  # type: ignore[method-assign]
    assert made.supervised(made.signal) == 77 and made.calls == [] and ends == [end]


def raises(error: BaseException) -> Callable[[], int]:
    def supervise() -> int:
        raise error

    return supervise


@pytest.mark.parametrize(
    ("supervise", "end"),
    [
        (lambda: 0, End("done")),
        (lambda: 143, End("stopped")),
        (raises(ConfigError("wrong")), End("failed", "wrong")),
        (raises(RefusedError("another")), End("")),
    ],
)
def test_duties_are_told_the_end_once(supervise: Callable[[], int], end: End) -> None:
    found: list[End] = []
    with contextlib.suppress(ConfigError, RefusedError):
        worker._ended(supervise, found.append)
    assert found == [end]


@pytest.fixture
def chief(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A chief whose supervision the test gives; its observer remembers."""
    made: Any = Made(task="worker:0", max_steps=70)
    observer = types.SimpleNamespace(
        end=lambda *end: made.calls.append(("observer", *end)), stop=lambda: made.calls.append("observer stops")
    )
    made.joined.directory, made.joined.observer = str(tmp_path), observer
    made.joined.heartbeat.process_id = "me"

    def train(supervise: Callable[[], int]) -> int:
        monkeypatch.setattr(worker, "_supervise", lambda training: supervise())
        return worker._train_as_chief(made, made.joined)

    made.as_chief = train
    yield made


@pytest.mark.parametrize(
    ("supervise", "state", "signum", "cause", "config"),
    [
        (lambda: 0, RunState.DONE, 0, "", False),
        (lambda: 143, RunState.STOPPED, 15, "", False),
        (raises(ConfigError("wrong")), RunState.FAILED, 0, "wrong", True),
        (raises(ValueError("odd")), RunState.FAILED, 0, "ValueError: odd", False),
    ],
)
def test_the_status_of_a_run_tells_an_evaluator_its_end(
    chief: Any, supervise: Callable[[], int], state: RunState, signum: int, cause: str, config: bool
) -> None:
    def supervised() -> int:
        before = read_status(chief.joined.directory)
        assert before is not None and before.status.state == RunState.RUNNING and before.status.max_steps == 70
        return supervise()

    with contextlib.suppress(ConfigError, ValueError):
        chief.as_chief(supervised)
    found = read_status(chief.joined.directory)
    assert found is not None
    status = found.status
    assert (status.state, status.signum, status.config) == (state, signum, config) and status.cause.startswith(cause)
    (end, observed, stopped) = chief.calls
    assert end.state == state and observed == ("observer", end.state, end.cause) and stopped == "observer stops"


def test_a_refused_chief_does_not_touch_the_status_of_the_other(chief: Any) -> None:
    def supervise() -> int:
        StatusFile(chief.joined.directory, "another", 70).begin()
        raise RefusedError("another process is the chief")

    with pytest.raises(RefusedError):
        chief.as_chief(supervise)
    found = read_status(chief.joined.directory)
    assert found is not None and found.status.state == RunState.RUNNING
    assert chief.calls == [End("")]


def test_an_unknown_task_is_refused_before_the_model_is_loaded() -> None:
    job = Job(ps_hosts=("a:1",), worker_hosts=("a:2",), model="no.such:Model")
    console: Any = None
    with pytest.raises(ConfigError, match="task_index=5 is out of range"):
        worker.run(job, Task("worker", 5), console)
