"""When a ps learns that the job of a script is over."""

from __future__ import annotations

import socket
import time

import pytest

from ps_train.base.errors import JobFailedError, UnreachableError
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.presence import JobEndDetector, Limits, Membership, ScriptStatus, State, statuses_in

LIMITS = Limits(silent_secs=60, restart_secs=10, absent_secs=30, startup_secs=600)


def status(state, beat=1, process="p"):
    return ScriptStatus(process, beat, state)


RUNNING, ENDED, FAILED = (status(state) for state in State)


def detector(*tasks):
    return JobEndDetector(tasks, LIMITS, now=0.0)


def test_the_job_goes_on_while_a_worker_runs():
    found = detector("worker:0", "worker:1")
    assert found.update({"worker:0": ENDED, "worker:1": RUNNING}, 1.0) == ""
    assert found.update({"worker:0": ENDED, "worker:1": status(State.RUNNING, beat=2)}, 59.0) == ""


def test_the_job_is_over_when_all_workers_have_ended():
    found = detector("worker:0", "worker:1")
    assert found.update({"worker:0": ENDED, "worker:1": ENDED}, 1.0) == (
        "the job is over: worker:0 ended, worker:1 ended"
    )


def test_a_silent_worker_counts_as_gone_after_its_limit_and_not_before():
    found = detector("worker:0", "worker:1")
    statuses = {"worker:0": ENDED, "worker:1": RUNNING}
    assert [found.update(statuses, now) for now in (1.0, 60.9)] == ["", ""]
    assert "worker:1 fell silent" in found.update(statuses, 61.0)


def test_a_failed_worker_may_be_restarted():
    found = detector("worker:0")
    assert found.update({"worker:0": FAILED}, 1.0) == ""
    assert found.update({"worker:0": status(State.RUNNING, process="q")}, 10.0) == ""
    assert "ended" in found.update({"worker:0": status(State.ENDED, process="q")}, 12.0)


def test_a_job_in_which_no_worker_ended_well_has_failed():
    found = detector("worker:0", "worker:1")
    statuses = {"worker:0": FAILED, "worker:1": RUNNING}
    assert found.update(statuses, 1.0) == ""
    with pytest.raises(JobFailedError, match=r"worker:0 failed, worker:1 fell silent\.$"):
        found.update(statuses, 61.0)


def test_a_worker_that_never_came_is_waited_for_a_while_after_the_others():
    found = detector("worker:0", "worker:1")
    assert [found.update({"worker:0": ENDED}, now) for now in (500.0, 529.0)] == ["", ""]
    assert "worker:1 never came" in found.update({"worker:0": ENDED}, 530.0)


def test_a_late_worker_starts_the_wait_again():
    found = detector("worker:0", "worker:1")
    assert found.update({"worker:0": ENDED}, 1.0) == ""
    assert found.update({"worker:0": ENDED, "worker:1": RUNNING}, 40.0) == ""
    assert "worker:1 ended" in found.update({"worker:0": ENDED, "worker:1": status(State.ENDED, 9)}, 41.0)


def test_a_job_to_which_no_worker_comes_is_given_up():
    found = detector("worker:0")
    assert found.update({}, 600.0) == ""
    with pytest.raises(UnreachableError, match="no worker has come within 600s"):
        found.update({}, 601.0)


def test_records_are_read_among_others():
    items = {"script/worker:0": RUNNING.to_json(), "steps": "[1, {}]"}
    assert statuses_in(items) == {"worker:0": RUNNING}


def test_a_session_waits_for_every_ps_but_not_for_ever():
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # nobody listens there
        ps = [Address("127.0.0.1", one.getsockname()[1]) for one in (there, reserved)]
        start = time.monotonic()
        member(ps[:1]).wait_for_ps(60.0)
        with pytest.raises(UnreachableError, match=rf"gave up after 0\.3s waiting for ps:1 \({ps[1]}\)"):
            member(ps).wait_for_ps(0.3)
        assert 0.3 <= time.monotonic() - start < 30


def member(ps):
    """A member that announces itself to nobody."""
    found = Membership("worker:0", [])
    found._ps = ps
    return found
