"""The run on an MLflow server, with a client that writes down its calls."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from ps_train.observe.tracking import mlflow_tracker
from ps_train.observe.tracking.mlflow_tracker import MlflowTracker, _key, _without_password
from ps_train.observe.tracking.tracking import Point, RefusedRunError, RunEnd


class ServerError(Exception):
    error_code = "RESOURCE_DOES_NOT_EXIST"


class Client:
    """A server with runs by id."""

    runs: dict[str, Any] = {}
    calls: list[Any] = []
    fails: Exception | None = None

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> Any:
        run_id = f"run{len(self.runs)}"
        info = types.SimpleNamespace(run_id=run_id, start_time=len(self.runs), lifecycle_stage="active")
        self.runs[run_id] = types.SimpleNamespace(info=info, data=types.SimpleNamespace(params={}), tags=dict(tags))
        self.calls.append(("create", experiment, run_name, dict(tags)))
        return self.runs[run_id]

    def get_run(self, run_id: str) -> Any:
        if run_id not in self.runs:
            raise ServerError("no such run")
        return self.runs[run_id]

    def log_batch(self, run_id: str, params: Any = (), tags: Any = (), metrics: Any = ()) -> None:
        if self.fails is not None:
            raise self.fails
        self.calls.append(("batch", run_id, [*params, *tags, *metrics]))
        self.runs[run_id].data.params.update(dict(params))

    def search_runs(self, experiments: list[str], query: str) -> list[Any]:
        name = query.partition("'")[2].rstrip("'")
        return [run for run in self.runs.values() if run.tags.get("ps_train.study") == name]

    def log_text(self, run_id: str, text: str, path: str) -> None:
        self.calls.append(("text", run_id, text, path))

    def update_run(self, run_id: str, state: str) -> None:
        self.calls.append(("update", run_id, state))

    def set_terminated(self, run_id: str, state: str = "FINISHED") -> None:
        self.calls.append(("end", run_id, state))

    def log_artifact(self, run_id: str, path: str) -> None:
        self.calls.append(("file", path))

    def delete_run(self, run_id: str) -> None:
        del self.runs[run_id]


class Run:
    """A job's run, which keeps its id."""

    name, plan, parent = "digits", "the plan", ""

    def __init__(self, kept: str = "", **parameters: str) -> None:
        self.kept, self.parameters, self.tags = kept, parameters, {"commit": "abc"}

    def kept_id(self, tracker: str) -> str:
        return self.kept

    def keep_id(self, tracker: str, run_id: str) -> None:
        self.kept = run_id


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    monkeypatch.setattr(Client, "runs", {})
    monkeypatch.setattr(Client, "calls", [])
    monkeypatch.setattr(Client, "fails", None)
    pair = lambda *values: values  # noqa: E731
    modules = {
        "mlflow": {"MlflowClient": Client},
        "mlflow.tracking": {"get_tracking_uri": lambda: "http://server:5000/"},
        "mlflow.exceptions": {"MlflowException": ServerError},
        "mlflow.entities": {"Param": pair, "RunTag": pair, "Metric": pair},
    }
    for name, values in modules.items():
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(**values))  # type: ignore[arg-type]
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return Client


def begun(run: Run) -> tuple[MlflowTracker, str]:
    tracker, given = MlflowTracker(), run
    any_run: Any = given
    return tracker, tracker.begin(any_run)


def test_a_new_run_has_parameters_tags_and_the_plan(client: type[Client]) -> None:
    run = Run(optimizer="adam")
    _, address = begun(run)
    assert address == "http://server:5000/#/experiments/0/runs/run0" and run.kept == "run0"
    assert client.calls == [
        ("create", "0", "digits", {}),
        ("batch", "run0", [("optimizer", "adam")]),
        ("batch", "run0", [("commit", "abc")]),
        ("text", "run0", "the plan\n", "plan.txt"),
    ]


def test_a_resumed_run_keeps_its_parameters_and_has_the_new_ones_as_tags(client: type[Client]) -> None:
    begun(Run(optimizer="adam"))
    client.calls.clear()
    begun(Run("run0", optimizer="sgd", seed="3"))
    assert client.calls[:3] == [
        ("update", "run0", "RUNNING"),
        ("batch", "run0", [("seed", "3")]),
        ("batch", "run0", [("commit", "abc"), ("resumed.optimizer", "sgd")]),
    ]


def test_a_kept_run_that_is_gone_or_deleted_is_replaced(client: type[Client]) -> None:
    run = Run("lost")
    begun(run)
    assert run.kept == "run0"
    client.runs["run0"].info.lifecycle_stage = "deleted"
    begun(run)
    assert run.kept == "run1"


def test_trials_of_a_study_have_one_parent(client: type[Client]) -> None:
    for _ in range(2):
        run = Run()
        run.parent = "study's"
        begun(run)
    parents = [call[3].get("mlflow.parentRunId") for call in client.calls if call[0] == "create"]
    assert parents == [None, "run0", "run0"]  # the first is the parent itself
    assert ("end", "run0", "FINISHED") in client.calls


def test_points_and_the_end_are_sent_in_parts(client: type[Client], tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(mlflow_tracker, "_METRICS", 2)
    tracker, _ = begun(Run())
    client.calls.clear()
    points = [Point(step=step, time=step / 2, values={"loss": 0.5, "a=b": 1.0}) for step in (1, 2)]
    tracker.send(points, {})
    sent = [items for kind, _, items in client.calls]
    assert sent == [[("loss", 0.5, 500, 1), ("a_b", 1.0, 500, 1)], [("loss", 0.5, 1000, 2), ("a_b", 1.0, 1000, 2)]]
    client.calls.clear()
    (tmp_path / "there").write_text("x")
    end: Any = RunEnd("stopped", [str(tmp_path / "there"), str(tmp_path / "none")])
    tracker.end(end)
    assert client.calls == [("file", str(tmp_path / "there")), ("end", "run0", "KILLED")]


def test_a_server_that_does_not_answer_is_told_in_short_and_without_its_password(
    client: type[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, _ = begun(Run())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@server:5000")
    client.fails = OSError("HTTPConnectionPool(...): Connection refused, and much more")
    with pytest.raises(ConnectionError, match=r"^http://server:5000 does not answer \(Connection refused\)$"):
        tracker.send([], {"a": "b"})
    client.fails = ValueError("another")
    with pytest.raises(ValueError, match="another"):
        tracker.send([], {"a": "b"})


def test_names_and_addresses_are_made_fit() -> None:
    assert _key("test/a b:c.d-e_f=g,ü") == "test/a b:c.d-e_f_g__" and len(_key("x" * 300)) == 250
    assert _without_password("https://u:p@h/x@y") == "https://h/x@y"


def test_a_package_that_cannot_be_imported_refuses_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(RefusedRunError, match="mlflow cannot be imported"):
        MlflowTracker().load()
