"""The texts of states in the records of a store and in status.json, which other processes read."""

from __future__ import annotations

import json
import pathlib

import pytest

from ps_train.cluster.membership.liveness import PeerStates
from ps_train.cluster.membership.membership import Membership
from ps_train.cluster.membership.records import (
    IDENTITY,
    OUTCOME,
    Outcome,
    OutcomeKind,
    TaskState,
    TaskStatus,
    task_statuses,
)
from ps_train.cluster.membership.run_status import RunState, Status, StatusFile, read_status
from tests.support.status.tasks import store_of, task_status

TEXTS = {
    TaskState: {
        "preparing",
        "starting",
        "training",
        "recovering",
        "waiting",
        "input ended",
        "leaving",
        "left",
        "serving",
        "failed",
    },
    OutcomeKind: {"done", "failed", "stopped"},
    RunState: {"running", "done", "stopped", "failed"},
}


def status(state: str, heartbeat: int = 0) -> TaskStatus:
    return TaskStatus("worker:1", "process", "host", 42, state=state, heartbeat=heartbeat)


@pytest.mark.parametrize("kind", TEXTS, ids=lambda kind: kind.__name__)
def test_the_texts_of_states_are_these(kind: type) -> None:
    assert {member.value for member in kind} == TEXTS[kind]


@pytest.mark.parametrize("state", TaskState)
def test_a_record_holds_the_text_of_its_state_and_equals_what_is_read(state: TaskState) -> None:
    text = status(state).to_json()
    assert json.loads(text)["state"] == state.value
    assert f'"{state.value}"' in text
    found = TaskStatus.from_json(text)
    assert found == status(state) and found.state == state
    assert found.to_json() == text, "a task compares texts to find out whether it still holds its lease"


@pytest.mark.parametrize("kind", OutcomeKind)
def test_an_outcome_holds_the_text_of_its_kind(kind: OutcomeKind) -> None:
    text = Outcome(kind, by="worker:0").to_json()
    assert f'"{kind.value}"' in text and Outcome.from_json(text).kind == kind


def test_status_json_holds_the_text_of_its_state(tmp_path: pathlib.Path) -> None:
    file = StatusFile(str(tmp_path), "me", 7)
    file.end(RunState.STOPPED, signum=15)
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "stopped"


def test_a_read_state_is_found_among_the_states() -> None:
    membership = Membership(["worker:1"], join_secs=10, lease_secs=10, now=0.0)
    (change,) = membership.update([TaskStatus.from_json(status(TaskState.LEFT).to_json())], 1.0)
    assert (change.present, change.reason) == (False, "has left")


def test_an_unknown_state_of_a_task_is_kept_and_equals_no_state() -> None:
    found = TaskStatus.from_json(status("dancing").to_json())
    assert found.state == "dancing" and found.state not in [*TaskState]
    assert PeerStates.from_records([found], "worker:0", lambda status: True) == PeerStates((), ())
    assert Membership(["worker:1"], join_secs=10, lease_secs=10, now=0.0).update([found], 1.0) == []


def test_an_unknown_state_of_a_run_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "status.json").write_text('{"state": "dancing", "holder": "me"}')
    found = read_status(str(tmp_path))
    assert found is not None and found.status == Status("dancing", "me")


def test_only_statuses_are_read_from_a_store() -> None:
    statuses = [task_status("worker:0", 9, "waiting"), task_status("chief:0")]
    assert task_statuses({**store_of(*statuses), IDENTITY: "{}", OUTCOME: "x"}) == statuses
