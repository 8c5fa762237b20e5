"""Packets that are dropped, in both directions or in one: the job ends right, or names the task that it has lost.

    cut off                          for a while     for good
    a worker                         ends right      the others end right; that worker names a ps
    a ps                             ends right      every task fails, and names that ps; the ps names the workers
    the chief                        ends right      every task fails, and names the chief; the chief names a ps
    one worker from one ps           ends right      every task fails, and names the worker and the ps

A while is longer than heartbeat_timeout_secs and shorter than recovery_timeout_secs.  A task that is cut off for good
ends within recovery_timeout_secs and the time that a busy machine takes (`job.END_SECS`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from tests.hosts.host import Host, Network
from tests.hosts.job import END_SECS, HEARTBEAT_SECS, MODES, RECOVERY_SECS, Job
from tests.hosts.updates import Torn
from tests.support.long import long
from tests.support.machine.processes import eventually

A_WHILE = HEARTBEAT_SECS + 2
ENDS_WITHIN = RECOVERY_SECS + END_SECS
every_mode = pytest.mark.parametrize("update", [long(mode) for mode in MODES])
MODES_AND_WAYS = [*((mode, "both") for mode in MODES), ("sync", "to"), ("async", "from"), ("bounded", "to")]
every_mode_and_way = pytest.mark.parametrize(("update", "way"), [long(*values) for values in MODES_AND_WAYS])


def ways(job: Job, task: str, way: str, others: Sequence[str]) -> list[tuple[Host, list[Host]]]:
    """Returns the senders and their receivers between a task and others, by default all of them.

    Args:
      way: `to`: what is sent to the task; `from`: what it sends; `both`.
    """
    host = job.hosts[task]
    rest = [job.hosts[other] for other in others or job.tasks if other != task]
    found = [(host, rest)] if way in ("both", "from") else []
    return [*found, *((other, [host]) for other in rest)] if way in ("both", "to") else found


def cut(job: Job, task: str, way: str, *others: str) -> None:
    """Drops the packets of a way between a task and others."""
    for sender, receivers in ways(job, task, way, others):
        job.network.drop(sender, *receivers)


def heal(job: Job, task: str, way: str, *others: str) -> None:
    for sender, receivers in ways(job, task, way, others):
        job.network.pass_on(sender, *receivers)


def cut_for_a_while(job: Job, task: str, way: str, *others: str) -> None:
    cut(job, task, way, *others)
    time.sleep(A_WHILE)  # the length of the fault
    job.strike(heal, job, task, way, *others)
    job.goes_on(f"{task} was cut off for {A_WHILE}s ({way}); ten steps after the end of it", within_secs=ENDS_WITHIN)


@pytest.mark.parametrize("update", ["sync", long("async"), long("bounded")])
def test_a_worker_that_is_cut_off_for_a_while_costs_no_step(network: Network, update: str) -> None:
    job = Job(network, update, 12)
    job.start_all()
    job.reach(20)
    cut_for_a_while(job, "worker:1", "both")
    job.ends_right(torn=Torn(pushes=1))


def hears_all_ps(job: Job, task: str) -> bool:
    """Whether every ps that the task has lost has answered it again."""
    last = {}
    for line in job.now[task].output.splitlines():
        for ps in ("ps:0", "ps:1"):
            if f"lost {ps} " in line or (f": {ps} (" in line and "answers again" in line):
                last[ps] = "answers again" in line
    return all(last.values())


@every_mode_and_way
def test_tasks_that_are_cut_off_for_a_while_one_after_the_other_cost_no_step(
    network: Network, update: str, way: str
) -> None:
    job = Job(network, update, 50)
    job.start_all()
    job.reach(20)
    for task in ("ps:1", "worker:0", "ps:0", "worker:1"):
        cut_for_a_while(job, task, way)
    # Or the two cuts would be one for TCP, whose pauses between attempts have doubled meanwhile.
    eventually(lambda: hears_all_ps(job, "worker:1"), ENDS_WITHIN, "an answer of every ps to worker:1")
    cut_for_a_while(job, "worker:1", way, "ps:1")
    job.ends_right(torn=Torn(pushes=8))  # one of each worker when a ps was cut off, or of that worker


@every_mode_and_way
def test_the_others_go_on_without_a_worker_that_is_cut_off_for_good_and_it_names_a_ps(
    network: Network, update: str, way: str
) -> None:
    job = Job(network, update, 12)
    job.start_all()
    job.reach(20)
    job.strike(cut, job, "worker:1", way)
    job.goes_on("a worker is cut off; ten steps later")
    job.fails(["worker:1"], r"lost ps:\d \(ps-\d:2222\) for 12s \(recovery_timeout_secs\)", ENDS_WITHIN)
    job.ends_right(absent=["worker:1"], torn=Torn(pushes=1))
    assert "has said nothing for 3s" in job.chief.output


@every_mode_and_way
def test_a_job_fails_that_has_lost_a_ps_for_good_and_names_it(network: Network, update: str, way: str) -> None:
    task, other = ("ps:0", "ps:1") if way == "both" else ("ps:1", "ps:0")
    job = Job(network, update, 60)
    job.start_all()
    job.reach(20)
    job.strike(cut, job, task, way)
    job.fails([other, "worker:0", "worker:1"], rf"lost {task} \({task.replace(':', '-')}:2222\) for 12s", ENDS_WITHIN)
    job.fails([task], r"no heartbeat of any worker for 1\ds|the job failed: worker:", ENDS_WITHIN)


@every_mode_and_way
def test_a_job_fails_that_has_lost_its_chief_for_good_and_names_it(network: Network, update: str, way: str) -> None:
    job = Job(network, update, 60)
    job.start_all()
    job.reach(20)
    job.strike(cut, job, "worker:0", way)
    job.fails(["ps:0", "ps:1", "worker:1"], "worker:0 on worker-0, pid .* has said nothing for 12s", ENDS_WITHIN)
    job.fails(["worker:0"], r"lost ps:\d \(ps-\d:2222\) for 12s|the job failed: worker:1", ENDS_WITHIN)


@every_mode
def test_a_job_fails_that_has_a_worker_which_reaches_one_ps_only_and_names_both(network: Network, update: str) -> None:
    job = Job(network, update, 60)
    job.start_all()
    job.reach(20)
    job.strike(cut, job, "worker:1", "both", "ps:1")
    job.fails(job.tasks, r"lost ps:1 \(ps-1:2222\) for 12s", ENDS_WITHIN)
