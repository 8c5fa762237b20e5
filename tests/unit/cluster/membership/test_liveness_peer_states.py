"""The tasks that the chief waits for at the end of a run."""

from __future__ import annotations

from ps_train.cluster.membership.liveness import PeerStates
from tests.support.status.tasks import task_status


def test_a_task_that_starts_or_trains_is_waited_for_and_one_that_waits_could_train_on():
    states = {"worker:0": "training", "worker:1": "starting", "worker:2": "training", "worker:3": "waiting"}
    states |= {"worker:4": "input ended", "worker:5": "done"}
    others = PeerStates.from_records(
        [task_status(task, state=s) for task, s in states.items()], "worker:0", lambda status: True
    )
    assert others.training == ("worker:1 on host-b, pid 42", "worker:2 on host-b, pid 42")
    assert others.waiting == ("worker:3 on host-b, pid 42",)


def test_the_chief_does_not_wait_for_itself():
    assert PeerStates.from_records([task_status("worker:0")], "worker:0", lambda status: True) == PeerStates((), ())


def test_the_chief_does_not_wait_for_the_dead():
    seats = [task_status("worker:1"), task_status("worker:2"), task_status("worker:3", state="waiting")]
    others = PeerStates.from_records(seats, "worker:0", lambda s: s.task == "worker:2")
    assert others == PeerStates(("worker:2 on host-b, pid 42",), ())
