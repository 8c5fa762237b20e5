"""The states of tasks from the records of the stores."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from ps_train.base.lifecycle import Recorder, attach, record_event, with_ages
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.records import TELEMETRY, TaskState
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.observe.status.tasks import TaskBoard
from tests.support.job_status import job_of
from tests.support.statuses import store_of, task_status, worker_status

LOST_SECS = 10.0


@pytest.fixture
def recorder():
    made = Recorder()
    attach(made)
    return made


@pytest.fixture
def tasks(recorder):
    plan = make_plan([VariableSpec("w", (10, 10), "float32", 4)], 2)
    return TaskBoard(Cluster.of(job_of()), plan, LOST_SECS, recorder)


def states(tasks, now):
    return {worker["task"]: worker["state"] for worker in tasks.workers(now)}


def test_a_worker_that_never_came_is_absent(tasks):
    tasks.read_records(0, store_of(worker_status(0)), 0.0)
    assert states(tasks, 100.0) == {"worker:0": "lost", "worker:1": "absent"}
    assert states(tasks, 5.0)["worker:0"] == "training"


def test_a_worker_is_lost_when_its_heartbeat_stands_still_and_back_when_it_moves(tasks):
    for now in range(0, 60, 5):
        tasks.read_records(0, store_of(worker_status(0, heartbeat=now), worker_status(1, heartbeat=1)), float(now))
    assert states(tasks, 56.0) == {"worker:0": "training", "worker:1": "lost"}
    tasks.read_records(0, store_of(worker_status(1, heartbeat=2)), 60.0)
    assert states(tasks, 61.0)["worker:1"] == "training"


@pytest.mark.parametrize("state", [TaskState.INPUT_ENDED, TaskState.LEAVING, TaskState.LEFT])
def test_a_worker_that_has_said_good_bye_is_not_lost(tasks, state):
    tasks.read_records(0, store_of(worker_status(1, state=state)), 0.0)
    assert states(tasks, 1000.0)["worker:1"] == state.value


def test_another_worker_that_joins_is_shown_after_the_others(tasks):
    tasks.read_records(0, store_of(worker_status(10), worker_status(2)), 0.0)
    assert list(states(tasks, 1.0)) == ["worker:0", "worker:1", "worker:2", "worker:10"]


def test_joining_and_taking_a_place_are_events(tasks, recorder):
    tasks.read_records(0, store_of(worker_status(1)), 0.0)
    tasks.read_records(0, store_of(worker_status(1, heartbeat=1)), 1.0)
    tasks.read_records(0, store_of(worker_status(1, process="second")), 2.0)
    assert [(event.kind, event.task) for event in recorder.events()] == [
        ("joined", "worker:1"),
        ("restarted", "worker:1"),
    ]


def test_a_task_that_prepares_has_not_joined(tasks, recorder):
    preparing = worker_status(1, state=TaskState.PREPARING, process="told")
    tasks.read_records(0, {records.preparing_key("worker:1"): preparing.to_json()}, 0.0)
    assert states(tasks, 1.0)["worker:1"] == "preparing" and not recorder.events()
    both = {records.preparing_key("worker:1"): preparing.to_json(), **store_of(worker_status(1))}
    tasks.read_records(0, both, 1.0)
    assert [event.kind for event in recorder.events()] == ["joined"]


def test_an_event_that_a_task_sends_with_each_heartbeat_is_shown_once(tasks, recorder):
    event = {"kind": "fault", "task": "worker:1", "text": "slow:worker:1x5"}
    for beat in range(5):
        telemetry = {"uptime": 1.0 + beat, "cpu_secs": 0.0, "events": [{**event, "age": 3.0 + beat}]}
        status = dataclasses.replace(worker_status(1, heartbeat=beat), telemetry=telemetry)
        tasks.read_records(0, store_of(status), float(beat))
    assert [found.kind for found in recorder.events()].count("fault") == 1


def test_the_events_of_the_chief_do_not_come_back_with_its_own_record(tasks, recorder):
    record_event("saved", "checkpoint of step 100")
    telemetry = {"uptime": 1.0, "cpu_secs": 0.0, "events": with_ages(recorder.events(), time.time())}
    tasks.read_records(0, store_of(dataclasses.replace(worker_status(0), telemetry=telemetry)), 0.0)
    assert [found.kind for found in recorder.events()] == ["saved", "joined"]


@pytest.mark.parametrize(
    "lie",
    [
        {},
        {"uptime": "soon"},
        {"uptime": 1.0},
        {"uptime": 1.0, "cpu_secs": None},
        {"uptime": 1.0, "cpu_secs": 1.0, "events": [{"age": "old"}]},
        {"uptime": 1.0, "cpu_secs": 1.0, "events": 7},
        {"uptime": 1.0, "cpu_secs": 1.0, "step_time": "fast"},
    ],
)
def test_telemetry_of_another_form_is_ignored(tasks, lie):
    for beat in range(3):
        status = dataclasses.replace(worker_status(1, heartbeat=beat), telemetry=lie)
        tasks.read_records(0, store_of(status), float(beat))
        tasks.read_records(1, {TELEMETRY: json.dumps(lie)}, float(beat))
    assert states(tasks, 2.0)["worker:1"] == "training"
    assert len(tasks.ps()) == 2
    assert tasks.step_times() == {}


def test_records_of_another_ps_do_not_count_for_workers(tasks):
    tasks.read_records(1, store_of(task_status("worker:1")), 0.0)
    assert states(tasks, 0.0)["worker:1"] == "absent"
