"""MLflow: a run on a tracking server.

The address is MLFLOW_TRACKING_URI, the experiment MLFLOW_EXPERIMENT_NAME or MLFLOW_EXPERIMENT_ID; MLflow's other
variables work too.  A call is made once and has 10 s, unless MLFLOW_HTTP_REQUEST_MAX_RETRIES and
MLFLOW_HTTP_REQUEST_TIMEOUT say otherwise: the queue tries again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ps_train.observe.tracking.tracked_run import TrackedRun
from ps_train.observe.tracking.tracking import Point, RefusedRunError, RunEnd

T = TypeVar("T")

NAME = "mlflow"
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_PARAMETERS, _TAGS, _METRICS = 100, 100, 1000
"""Most items of a call."""

_LONGEST_PARAMETER, _LONGEST_TAG = 6000, 5000
_STATES = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_PARENT_TAG, _STUDY_TAG = "mlflow.parentRunId", "ps_train.study"
_UNREACHED = re.compile(r"Connection refused|timed out|Name or service not known|No route to host|reset by peer")


class MlflowTracker:
    """The run of a job on an MLflow server."""

    def __init__(self) -> None:
        self._client: Any = None
        self._id = ""
        self._plan = ""

    def load(self) -> None:
        """Imports MLflow; see `Tracker.load`."""
        for name, value in _DEFAULTS.items():
            os.environ.setdefault(name, value)
        logging.getLogger("mlflow").setLevel(logging.ERROR)
        try:
            import mlflow  # noqa: F401
        except ImportError as error:
            raise RefusedRunError(f"mlflow cannot be imported ({error})") from error

    def begin(self, run: TrackedRun) -> str:
        """Makes the run, or goes on with the one whose id is in model_dir; see `Tracker.begin`."""
        return self._answered(lambda: self._begin(run))

    def send(self, points: Sequence[Point], tags: Mapping[str, str]) -> None:
        """Sends points and tags; see `Tracker.send`."""
        self._answered(lambda: self._send(points, tags))

    def end(self, end: RunEnd) -> None:
        """Sends the files and the state; see `Tracker.end`."""

        def send() -> None:
            for path in end.files:
                if os.path.exists(path):
                    self._client.log_artifact(self._id, path)
            self._client.set_terminated(self._id, _STATES[end.state])

        self._answered(send)

    def abandon(self) -> None:
        """Does nothing: the thread ends with the process."""

    def _begin(self, run: TrackedRun) -> str:
        from mlflow import MlflowClient
        from mlflow.tracking import get_tracking_uri

        self._client = MlflowClient()
        experiment, known = self._experiment(), self._known_parameters(run.kept_id(NAME))
        if not self._id:
            tags = {_PARENT_TAG: self._parent(experiment, run.parent)} if run.parent else {}
            self._id = self._client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
            run.keep_id(NAME, self._id)
        changed = {name: value for name, value in run.parameters.items() if known.get(name, value) != value}
        self._log_parameters({name: value for name, value in run.parameters.items() if name not in known})
        # MLflow changes no parameter: the value of a resumed job is a tag.
        self._log_tags({**run.tags, **{f"resumed.{name}": value for name, value in changed.items()}})
        self._client.log_text(self._id, run.plan + "\n", "plan.txt")
        address = get_tracking_uri()
        return f"{address.rstrip('/')}/#/experiments/{experiment}/runs/{self._id}" if "://" in address else self._id

    def _experiment(self) -> str:
        if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return given
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if not name:
            return "0"
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found is not None else self._client.create_experiment(name))

    def _known_parameters(self, kept: str) -> Mapping[str, str]:
        """Goes on with a kept run, unless the server does not have it; returns its parameters."""
        found = self._run(kept) if kept else None
        if found is None or found.info.lifecycle_stage != "active":
            return {}
        self._id = kept
        self._client.update_run(kept, "RUNNING")
        return dict(found.data.params)

    def _run(self, run_id: str) -> Any:
        """Returns a run; None if the server does not have it."""
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise

    def _parent(self, experiment: str, parent: str) -> str:
        """Returns the id of the parent run; makes one for a name that is not the id of a run."""
        if re.fullmatch(r"[0-9a-f]{32}", parent) and self._run(parent) is not None:
            return parent
        name = parent.replace("'", "")
        first = self._first_of_study(experiment, name)
        if first:
            return first
        own = self._client.create_run(experiment, run_name=name, tags={_STUDY_TAG: name}).info.run_id
        self._client.set_terminated(own)  # it only holds the others together
        first = self._first_of_study(experiment, name) or own
        if first != own:  # another trial has made one at the same time
            self._client.delete_run(own)
        return str(first)

    def _first_of_study(self, experiment: str, name: str) -> str:
        """Returns the id of the oldest run of a study; "" if there is none."""
        found = self._client.search_runs([experiment], f"tags.`{_STUDY_TAG}` = '{name}'")
        return str(min((run.info.start_time, run.info.run_id) for run in found)[1]) if found else ""

    def _log_parameters(self, parameters: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        for part in _parts([*parameters.items()], _PARAMETERS):
            found = [Param(_key(name), value[:_LONGEST_PARAMETER]) for name, value in part]
            self._client.log_batch(self._id, params=found)

    def _log_tags(self, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        for part in _parts([*tags.items()], _TAGS):
            self._client.log_batch(self._id, tags=[RunTag(_key(name), text[:_LONGEST_TAG]) for name, text in part])

    def _send(self, points: Sequence[Point], tags: Mapping[str, str]) -> None:
        from mlflow.entities import Metric

        found = [
            Metric(_key(name), value, int(point.time * 1000), point.step)
            for point in points
            for name, value in point.values.items()
        ]
        for part in _parts(found, _METRICS):
            self._client.log_batch(self._id, metrics=part)
        self._log_tags(tags)

    def _answered(self, call: Any) -> Any:
        """Makes a call; its error has one short text."""
        try:
            return call()
        except Exception as error:
            reason = _UNREACHED.search(str(error))
            if reason is None:
                raise
            address = os.environ.get("MLFLOW_TRACKING_URI", "the server")
            raise ConnectionError(f"{_without_password(address)} does not answer ({reason[0]})") from error


def _parts(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), most):
        yield items[begin : begin + most]


def _key(name: str) -> str:
    """Returns a name with the characters that MLflow allows."""
    return re.sub(r"[^\w.\- :/]", "_", name, flags=re.ASCII)[:250]


def _without_password(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)
