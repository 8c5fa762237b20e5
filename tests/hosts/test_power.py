"""Hosts that lose their power, so that no packet tells of it, and hosts that come back with another address.

    without power           comes back                            does not come back
    a worker's host         with another address: it rejoins      the others go on
    a ps's host             with another address: it is restored  every task fails, and names that ps
    the chief's host        with its disk: training goes on       every task fails, and names the chief

The others learn the new address from the cluster file, or from the name service.
"""

from __future__ import annotations

import pytest

from tests.hosts.host import Network
from tests.hosts.job import END_SECS, MODES, RECOVERY_SECS, Job
from tests.hosts.updates import Torn
from tests.support.long import long

ENDS_WITHIN = RECOVERY_SECS + END_SECS
BACK = ("--recovery_timeout_secs=60",)
"""The new process may take long to start on a busy machine."""
BACK_SECS = 90.0

every_mode = pytest.mark.parametrize("update", [long(mode) for mode in MODES])


def power_off(job: Job, task: str) -> None:
    job.strike(job.hosts[task].power_off)


def come_back(job: Job, task: str, by_name: bool = False) -> None:
    """The host starts again with another address, which the others learn, and its task with it."""
    job.move(task, "" if by_name else "address")
    if not by_name:
        job.write_cluster_file()
    job.start(task)


@every_mode
def test_each_host_in_turn_may_come_back_with_another_address(network: Network, update: str) -> None:
    job = Job(network, update, 60, *BACK, num_ps=1, cluster_file=True)
    job.start_all()
    job.reach(60)
    power_off(job, "worker:1")
    come_back(job, "worker:1")
    job.now["worker:1"].wait_for("training from global step", BACK_SECS)
    job.note("worker:1 is back with another address and trains")
    job.goes_on("ten steps more")
    before = job.hosts["ps:0"].address
    power_off(job, "ps:0")
    come_back(job, "ps:0")
    job.chief.wait_for("ps:0 restarted; restored step", BACK_SECS)
    assert f"is now ps:0 ({job.hosts['ps:0'].address}:2222) (cluster_file)" in job.chief.output and before
    job.goes_on("ps:0 is back with another address; ten steps later")
    power_off(job, "worker:0")
    come_back(job, "worker:0")
    job.reach(10, BACK_SECS)
    job.note("the chief is back with its disk and another address; a step later")
    # The counts of one ps are exact in every mode: it takes with it what it has lost.
    job.ends_right()


@every_mode
def test_a_ps_whose_host_comes_back_with_its_name_and_another_address_is_restored(
    network: Network, update: str
) -> None:
    job = Job(network, update, 20, *BACK)
    job.start_all()
    job.reach(60)
    power_off(job, "ps:1")
    come_back(job, "ps:1", by_name=True)
    job.chief.wait_for("ps:1 restarted; restored step", BACK_SECS)
    job.goes_on("ps:1 is back with its name and another address; ten steps later")
    restored, lost = job.lost("ps:1")
    torn = Torn(pushes=2, less=lost) if update == "async" else Torn(pushes=2)
    job.ends_right(torn=torn)
    assert restored % 50 == 0 or restored > 0


@pytest.mark.parametrize("update", ["async", long("sync"), long("bounded")])
def test_a_job_fails_whose_ps_has_lost_its_power_for_good_and_names_it(network: Network, update: str) -> None:
    job = Job(network, update, 60)
    job.start_all()
    job.reach(20)
    power_off(job, "ps:1")
    job.fails(["ps:0", "worker:0", "worker:1"], r"lost ps:1 \(ps-1:2222\) for 12s", ENDS_WITHIN)


@every_mode
def test_a_job_goes_on_without_a_worker_that_has_lost_its_power_and_fails_without_its_chief(
    network: Network, update: str
) -> None:
    job = Job(network, update, 60, num_ps=1)
    job.start_all()
    job.reach(20)
    power_off(job, "worker:1")
    said = "worker:1 on worker-1, pid "
    job.goes_on("worker:1 has no power; ten steps later")
    job.chief.wait_for("has said nothing for 3s (heartbeat_timeout_secs)", 30)
    assert said in job.chief.output
    job.note("the chief has said that worker:1 is absent")
    power_off(job, "worker:0")
    # No other worker is left to notice it.
    job.fails(["ps:0"], r"no heartbeat of any worker for 1\ds \(recovery_timeout_secs\)", ENDS_WITHIN)


@every_mode
def test_a_job_fails_whose_chief_has_lost_its_power_for_good_and_names_it(network: Network, update: str) -> None:
    job = Job(network, update, 60)
    job.start_all()
    job.reach(20)
    power_off(job, "worker:0")
    job.fails(["ps:0", "ps:1", "worker:1"], "worker:0 on worker-0, pid .* has said nothing for 12s", ENDS_WITHIN)
