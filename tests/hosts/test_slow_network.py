"""A network that takes 20 ms each way and loses 1 % of its packets: the job ends right, only later."""

from __future__ import annotations

import pathlib
import signal

import pytest

from tests.hosts.host import Network
from tests.hosts.job import MODES, Job
from tests.support.long import long
from tests.support.machine.processes import Processes


@pytest.mark.parametrize("update", [long(mode) for mode in MODES])
def test_a_job_ends_right_where_packets_are_late_and_some_are_lost(
    tmp_path: pathlib.Path, processes: Processes, update: str
) -> None:
    with Network(tmp_path, processes, delay_ms=20, loss=0.01) as network:
        job = Job(network, update, 6)
        job.start_all()
        job.strike(job.reach, 10)
        job.ends_right()


@pytest.mark.long
@pytest.mark.parametrize("update", ["sync", "async"])
def test_batches_grow_where_packets_are_late(tmp_path: pathlib.Path, processes: Processes, update: str) -> None:
    with Network(tmp_path, processes, delay_ms=20) as network:
        job = Job(
            network,
            update,
            60,
            "--model=tests.support.models.small:Linear",
            "--batch_size=8..64",
            "--max_steps=1000000",
        )
        job.start_all()
        job.chief.wait_for("batch_size=64 from step ", within_secs=240)
        job.chief.send(signal.SIGTERM)
        job.end(job.tasks, 60)
        assert [job.now[task].wait() for task in job.tasks] == [143] * len(job.tasks), job.story()
