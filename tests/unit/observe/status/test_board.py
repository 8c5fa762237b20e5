"""The state of a job as the status page gets it."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from ps_train.base.lifecycle import Event
from ps_train.cluster.membership.records import TELEMETRY, TaskState
from ps_train.cluster.topology import Topology
from ps_train.config.job_values import NO_LIMIT
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.observe.status.status_json import HISTORY, STATUS
from ps_train.training.duties.rack_display import RackDisplay
from tests.support.job_status import Liveness, board_of, counters_of, progress_of, step_time
from tests.support.statuses import store_of, worker_status


def record(uptime, **values):
    return {"uptime": uptime, "cpu_secs": 0.0, "steps": 0, "examples": 0.0, **values}


def test_the_status_has_the_documented_keys_from_the_beginning_on():
    status = board_of().status()
    assert set(status) == set(STATUS)
    assert status["state"] == "starting"
    assert (status["step"], status["loss"], status["eta_secs"], status["staleness"]) == (None, None, None, None)
    json.dumps(status, allow_nan=False)


@pytest.mark.parametrize("section", ["job", "ps", "workers", "events", "health"])
def test_a_section_has_the_documented_keys(section):
    board = board_of()
    board.read_records(0, store_of(worker_status(0), worker_status(1)))
    documented, found = STATUS[section], board.status()[section]
    if section != "job":
        (documented,) = documented
        assert found
        found = found[0]
    assert set(found) == set(documented)


def test_the_bytes_between_racks_are_shown_where_the_racks_of_the_ps_are_known():
    board, racks = board_of(rack="x", update="sync"), {"worker:0": "x", "worker:1": "y"}
    plan = make_plan([VariableSpec("w", (1001, 10), "float32", 4)], 2)
    (display,) = board.displays.of(RackDisplay)
    display.found(Topology(("x", "y"), (("worker:0",), ("worker:1",)), racks), plan)
    assert board.status()["core"] is None
    places = {**racks, "ps:0": "x", "ps:1": "x"}
    display.found(Topology(("x", "y"), (("worker:0",), ("worker:1",)), places), plan)
    # Worker 1 pulls all 10,010 numbers from the other rack and pushes as many.
    assert board.status()["core"]["bytes_per_step"] == board.status()["core"]["flat_bytes_per_step"] == 2 * 4 * 10010


def test_a_job_in_training_has_progress_and_its_end_is_predicted():
    board = board_of()
    board.read_records(0, store_of(worker_status(0), worker_status(1)))
    board.progress(progress_of(1000), counters_of(), {"count": 1, "hold_secs_mean": 0.1, "last_step": 900})
    status = board.status()
    assert (status["state"], status["step"], status["max_steps"], status["eta_secs"]) == ("training", 1000, 2000, 10.0)
    assert status["staleness"]["histogram"] == {"0": 120, "1": 80}
    assert (status["waiting"], status["save"]["last_step"]) == (None, 900)


def test_the_rates_of_a_job_that_makes_no_steps_are_not_known(monkeypatch):
    board = board_of()
    board.read_records(0, store_of(worker_status(0), worker_status(1)))
    board.progress(progress_of(1000), counters_of(), None)
    rates = ("steps_per_sec", "examples_per_sec", "eta_secs")
    assert None not in [board.status()[name] for name in rates]
    later = time.monotonic() + 100
    monkeypatch.setattr(time, "monotonic", lambda: later)  # as when all wait for a lost worker
    assert [board.status()[name] for name in rates] == [None] * 3
    assert (board.status()["step"], board.status()["loss"]) == (1000, 0.5)


@pytest.mark.parametrize("state", ["recovering", "finishing", "done"])
def test_a_job_that_does_not_train_has_no_rates(state):
    board = board_of()
    own = TaskState.RECOVERING if state == "recovering" else TaskState.TRAINING
    board.read_records(0, store_of(worker_status(0, state=own), worker_status(1)))
    board.progress(progress_of(1000), counters_of(), None)
    if state != "recovering":
        board.finishing()
    if state == "done":
        board.end(state)
    found = board.status()
    assert (found["state"], found["steps_per_sec"], found["examples_per_sec"]) == (state, None, None)


def test_a_job_without_an_end_has_no_prediction():
    board = board_of(max_steps=NO_LIMIT)
    board.progress(progress_of(1000, max_steps=NO_LIMIT), counters_of(), None)
    assert (board.status()["max_steps"], board.status()["eta_secs"]) == (None, None)


def test_a_job_that_stands_still_has_no_prediction():
    board = board_of()
    board.progress(progress_of(1000, steps_per_sec=0.0), counters_of(), None)
    assert board.status()["eta_secs"] is None


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (TaskState.STARTING, "starting"),
        (TaskState.TRAINING, "training"),
        (TaskState.WAITING, "training"),
        (TaskState.RECOVERING, "recovering"),
        (TaskState.LEAVING, "finishing"),
    ],
)
def test_the_state_of_the_job_is_that_of_its_chief(state, expected):
    board = board_of()
    board.read_records(0, store_of(worker_status(0, state=state), worker_status(1)))
    assert board.status()["state"] == expected


def test_the_first_end_counts_and_stops_the_clock():
    board = board_of()
    board.progress(progress_of(2000), counters_of(), None)
    board.end("failed", "lost ps:0")
    first = board.status()
    board.end("done")
    time.sleep(0.01)
    last = board.status()
    assert (last["state"], last["cause"], last["eta_secs"]) == ("failed", "lost ps:0", None)
    assert last["elapsed_secs"] == first["elapsed_secs"]


def test_the_last_save_and_its_step_are_shown_after_the_last_progress():
    saves = {"count": 3, "hold_secs_mean": 0.1, "last_step": 1234}
    board = board_of()
    board.saved(None)
    assert (board.status()["step"], board.status()["save"]) == (None, None)
    board.saved(saves)
    assert (board.status()["step"], board.status()["save"]["last_step"]) == (1234, 1234)
    board.progress(progress_of(1300), counters_of(), {**saves, "last_step": 1300})
    board.saved(saves)
    assert (board.status()["step"], board.status()["loss"]) == (1300, 0.5)


def test_the_loss_of_a_ps_is_told_once_whoever_sees_it():
    board = board_of()
    events = [("lost", 0.0), ("restarted", 3.0), ("lost", 2.0), ("restarted", 4.0), ("saved", 5.0), ("saved", 6.0)]
    for kind, at in [*events, ("lost", 50.0)]:
        board._recorder.add(Event(at, kind, "ps:0", f"ps:0 {kind}"))
    found = [(event["kind"], event["time"]) for event in board.status()["events"]]
    assert found == [("lost", 0.0), ("restarted", 3.0), ("saved", 5.0), ("saved", 6.0), ("lost", 50.0)]


def test_a_ps_has_its_part_of_the_plan_and_what_it_says_of_itself():
    board = board_of()
    for uptime, sent in ((10.0, 0.0), (12.0, 4e6)):
        board.read_records(1, {TELEMETRY: json.dumps(record(uptime, cpu_secs=uptime / 2, sent_bytes=sent))})
    first, second = board.status()["ps"]
    assert (second["task"], second["address"], second["cpu"], second["sent_bytes_per_sec"]) == ("ps:1", "b:1", 0.5, 2e6)
    assert (first["cpu"], first["rss_bytes"]) == (None, None)
    assert first["share"] + second["share"] == pytest.approx(1.0)
    assert first["variable_bytes"] + second["variable_bytes"] == 40_040


def test_a_silent_ps_is_shown():
    board = board_of()
    board.tasks.watch(Liveness("ps:1 (b:1)"))
    assert [ps["state"] for ps in board.status()["ps"]] == ["serving", "silent"]


def test_curves_have_a_point_for_each_progress_with_the_rates_of_the_workers():
    board = board_of()
    for uptime, steps in ((10.0, 0), (12.0, 100)):
        status = worker_status(1, heartbeat=int(uptime))
        board.read_records(
            0, store_of(dataclasses.replace(status, telemetry=record(uptime, steps=steps, examples=32.0 * steps)))
        )
    board.progress(progress_of(1000), counters_of(), None)
    (point,) = board.history()["points"]
    assert set(point) == set(HISTORY["points"][0])
    assert point["workers"] == {"worker:1": 1600.0}


def test_the_parts_of_a_step_are_those_of_each_worker():
    board = board_of()
    status = dataclasses.replace(worker_status(0), telemetry=record(1.0, step_time=step_time(pull=0.001)))
    board.read_records(0, store_of(status))
    assert board.status()["step_time"]["worker:0"]["pull"] == 0.001


def test_a_rising_loss_under_stale_gradients_is_a_warning_and_an_event_once(caplog):
    board = board_of()
    board.read_records(0, store_of(worker_status(0), worker_status(1)))
    for step, rise in enumerate([None, 0.1, 0.7, 0.7]):
        board.progress(progress_of(100 + step, loss_rise=rise), counters_of(stale=(20, 80)), None)
    status = board.status()
    assert status["loss_rise"] == 0.7
    assert [each["state"] for each in status["health"] if each["rule"] == "loss_rise"] == ["warn"]
    assert caplog.text.count("rise of the loss while gradients are stale") == 1
    assert [event["kind"] for event in status["events"]].count("warned") == 1
