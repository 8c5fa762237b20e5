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
from ps_train.cluster.membership.succession import Aggregator, aggregator_key
from ps_train.cluster.topology import Topology
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.observe.status.tasks import TaskBoard
from ps_train.training.duties.rack_display import RackDisplay
from ps_train.training.tasks.displays import displays
from tests.support.status.job import Liveness, job_of
from tests.support.status.tasks import store_of, task_status, worker_status

LOST_SECS = 10.0


@pytest.fixture
def recorder():
    made = Recorder()
    attach(made)
    return made


@pytest.fixture
def tasks(recorder):
    plan = make_plan([VariableSpec("w", (10, 10), "float32", 4)], 2)
    cluster = Cluster.of(job_of())
    board = TaskBoard(cluster, LOST_SECS, recorder, displays())
    board.planned(plan)
    return board


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


def heard(tasks, index, now, state=TaskState.TRAINING, **changes):
    """A worker's heartbeat at `now`, with measurements: 100 steps and 3200 examples a second."""
    telemetry = {"uptime": now, "cpu_secs": now / 2, "steps": 100 * now, "examples": 3200.0 * now, "rss_bytes": 3e8}
    telemetry |= {"step_time": {"step": 1, "secs": 0.1}, **changes}
    status = dataclasses.replace(worker_status(index, heartbeat=int(now), state=state), telemetry=telemetry)
    tasks.read_records(0, store_of(status), now)


MEASURED = ("cpu", "rss_bytes", "sent_bytes_per_sec", "steps", "steps_per_sec", "examples_per_sec")


def measured(task):
    """The measurements of a task that are known."""
    return {name: task[name] for name in MEASURED if task.get(name) is not None}


@pytest.mark.parametrize(
    "state", [TaskState.TRAINING, TaskState.WAITING, TaskState.INPUT_ENDED, TaskState.LEAVING, TaskState.LEFT]
)
def test_a_worker_that_no_longer_reports_has_no_measurements(tasks, state):
    for now in (1.0, 2.0, 3.0):
        heard(tasks, 1, now, state)
    assert tasks.workers(4.0)[1]["examples_per_sec"] == 3200.0 and tasks.examples_per_sec(4.0) == {"worker:1": 3200.0}
    for now in (9.0, 100.0):  # silent, then lost
        assert measured(tasks.workers(now)[1]) == {}
        assert tasks.examples_per_sec(now) == {} and tasks.step_times(now) == {}
        assert tasks.workers(now)[1]["heartbeat_age_secs"] == now - 3.0
    heard(tasks, 1, 101.0, state)
    assert "examples_per_sec" in measured(tasks.workers(101.5)[1])


def test_another_process_of_a_worker_does_not_have_the_measurements_of_the_one_before(tasks):
    heard(tasks, 1, 1.0)
    heard(tasks, 1, 2.0)
    tasks.read_records(0, store_of(worker_status(1, process="second")), 3.0)
    assert measured(tasks.workers(3.0)[1]) == {} and tasks.step_times(3.0) == {}


def test_a_silent_ps_has_no_measurements_nor_one_that_sends_none(tasks):
    for now in (1.0, 2.0):
        tasks.read_records(1, {TELEMETRY: json.dumps({"uptime": now, "cpu_secs": now, "rss_bytes": 3e8})}, now)
    assert measured(tasks.ps(3.0)[1]) == {"cpu": 1.0, "rss_bytes": 3e8, "sent_bytes_per_sec": 0.0}
    assert measured(tasks.ps(8.0)[1]) == {}
    tasks.watch(Liveness("ps:1 (b:1)"))
    assert tasks.ps(3.0)[1]["state"] == "silent" and measured(tasks.ps(3.0)[1]) == {}


def test_the_silence_of_ps_0_is_not_that_of_the_workers(tasks):
    heard(tasks, 1, 1.0)
    liveness = Liveness("ps:0 (a:1)")
    tasks.watch(liveness)
    assert states(tasks, 40.0)["worker:1"] == "training" and measured(tasks.workers(40.0)[1]) == {}
    liveness.silent.clear()
    tasks.read_records(0, {}, 41.0)  # a new process, to which nobody has written yet
    assert states(tasks, 42.0)["worker:1"] == "training"
    for now in range(43, 60, 2):
        tasks.read_records(0, {}, float(now))
    assert states(tasks, 60.0)["worker:1"] == "lost"


def test_no_task_of_a_job_that_has_ended_works(tasks):
    heard(tasks, 0, 1.0)
    heard(tasks, 1, 1.0, TaskState.LEFT)
    tasks.read_records(1, {TELEMETRY: json.dumps({"uptime": 1.0, "cpu_secs": 1.0, "rss_bytes": 3e8})}, 1.0)
    tasks.end()
    assert [task["state"] for task in tasks.workers(2.0)] == ["ended", "left"]
    assert {task["state"] for task in tasks.ps(2.0)} == {"ended"}
    assert [measured(task) for task in [*tasks.workers(2.0), *tasks.ps(2.0)]] == [{}] * 4
    assert tasks.examples_per_sec(2.0) == {} and tasks.step_times(2.0) == {}


def aggregator(index, is_ready=True, process="first"):
    return Aggregator(f"worker:{index}", f"{process} {index}", "host-b:9", "a term", is_ready)


def test_the_rack_and_the_aggregator_of_each_worker_are_shown(tasks):
    topology = Topology(("a", "b"), (("worker:0",), ("worker:1",)), {"worker:0": "a", "worker:1": "b"})
    (racks,) = tasks._displays.of(RackDisplay)
    racks.found(topology, make_plan([], 2))
    items = {aggregator_key("a"): aggregator(0).to_json(), aggregator_key("b"): aggregator(1).to_json()}
    tasks.read_records(0, {**store_of(worker_status(0), worker_status(1)), **items}, 0.0)
    found = tasks.workers(1.0)
    assert [(task["rack"], task["is_aggregator"], task["state"]) for task in found] == [
        ("a", True, "training"),
        ("b", True, "training"),
    ]
    assert [task["is_aggregator"] for task in tasks.workers(60.0)] == [False, False], "a lost one adds up nothing"


@pytest.mark.parametrize("role", [None, aggregator(0, is_ready=False), aggregator(0, process="former")])
@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.RECOVERING])
def test_a_worker_whose_rack_has_no_aggregator_waits_for_it(tasks, role, state):
    mine = dataclasses.replace(worker_status(1, state=state), rack="b")
    items = {} if role is None else {aggregator_key("b"): role.to_json()}
    tasks.read_records(0, {**store_of(worker_status(0), mine), **items}, 0.0)
    assert states(tasks, 1.0)["worker:1"] == "waiting for the rack"
    tasks.read_records(0, {**store_of(worker_status(0), mine), aggregator_key("b"): aggregator(0).to_json()}, 1.0)
    assert states(tasks, 2.0)["worker:1"] == state.value


def test_a_worker_names_the_ps_in_its_process(recorder):
    job = job_of(ps_hosts=(), ps_on_workers=True)
    cluster = Cluster.of(job)
    board = TaskBoard(cluster, LOST_SECS, recorder, displays())
    board.planned(make_plan([], 2))
    assert [task["ps"] for task in board.workers(0.0)] == ["ps:0", "ps:1"]


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
    assert len(tasks.ps(2.0)) == 2
    assert tasks.step_times(2.0) == {}


def test_records_of_another_ps_do_not_count_for_workers(tasks):
    tasks.read_records(1, store_of(task_status("worker:1")), 0.0)
    assert states(tasks, 0.0)["worker:1"] == "absent"
