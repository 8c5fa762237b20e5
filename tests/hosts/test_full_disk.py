"""Disks that are full: that of the chief costs checkpoints, and those of others cost their logs."""

from __future__ import annotations

import contextlib

import pytest
import tensorflow as tf

from ps_train.engine.checkpoint.files import checkpoints_in
from tests.hosts.host import Host, Network
from tests.hosts.job import DONE_SECS, MODES, Job
from tests.support.long import long
from tests.support.machine.processes import eventually

every_mode = pytest.mark.parametrize("update", [long(mode) for mode in MODES])


def fill(host: Host) -> None:
    with contextlib.suppress(OSError), (host.disk / "filler").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()


def check_all_whole(host: Host) -> None:
    """Every checkpoint in the list of the chief can be read."""
    saved = checkpoints_in(str(host.disk / "model"))
    assert saved
    for _, path in saved:
        reader = tf.train.load_checkpoint(path)
        assert all(reader.get_tensor(name) is not None for name in reader.get_variable_to_shape_map())


def until_full(job: Job) -> None:
    """Trains until there are two checkpoints; then the chief's disk is full, and a checkpoint has failed."""
    host = job.hosts["worker:0"]
    job.start_all()
    eventually(lambda: len(checkpoints_in(str(host.disk / "model"))) >= 2, 120, "the second checkpoint")
    job.strike(fill, host)
    job.chief.wait_for("training continues, the last checkpoint is of step", 60)
    check_all_whole(host)
    job.goes_on("the chief's disk is full; ten steps after the first checkpoint that failed")


@every_mode
def test_a_job_whose_chief_has_a_full_disk_for_a_while_ends_right(network: Network, update: str) -> None:
    job = Job(network, update, 12, sizes={"worker:0": "1m"})
    until_full(job)
    (job.hosts["worker:0"].disk / "filler").unlink()
    job.ends_right()
    check_all_whole(job.hosts["worker:0"])


@every_mode
def test_a_job_whose_chief_has_a_full_disk_to_the_end_names_it_and_keeps_the_last_checkpoint(
    network: Network, update: str
) -> None:
    job = Job(network, update, 12, sizes={"worker:0": "1m"})
    until_full(job)
    job.fails(job.tasks, r"checkpoint .* could not be written \(.*[Nn]o space", DONE_SECS)
    check_all_whole(job.hosts["worker:0"])


@every_mode
def test_full_disks_of_other_hosts_cost_only_what_is_written_there(network: Network, update: str) -> None:
    log_dir = f"--log_dir={network.disk}/logs"
    job = Job(network, update, 8, log_dir, "--verbose", sizes={"worker:1": "32k", "ps:0": "32k"})
    job.start_all()
    job.reach(20)
    job.strike(fill, job.hosts["worker:1"])
    fill(job.hosts["ps:0"])
    job.ends_right()
    for task in job.tasks:
        assert (job.hosts[task].disk / "logs" / f"{task.replace(':', '_')}.log").exists()
