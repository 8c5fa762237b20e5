"""A ps that falls silent without closing its connections, and is replaced by another process."""

from __future__ import annotations

import json
import re
import signal
import socket
import time

import pytest

from tests.process.test_cluster_file import FLAGS as PACE
from tests.process.test_cluster_file import Described, saved
from tests.support.long import long
from tests.support.machine.processes import Process, Processes, eventually

STEPS, RECOVERY_SECS = 1000, 30
FLAGS = (
    f"--max_steps={STEPS}",
    f"--recovery_timeout_secs={RECOVERY_SECS}",
    "--heartbeat_timeout_secs=4",
    "--save_steps=10",
    "--startup_timeout_secs=300",
)


def last_step(worker: Process) -> int:
    steps = re.findall(r"^step (\d+)", worker.output, re.MULTILINE)
    return int(steps[-1]) if steps else 0


def replacement(cluster: Described, processes: Processes, *flags: str) -> tuple[Process, list[str]]:
    """Another process for ps 1 that serves already, of which the others do not know yet; and where all ps are then."""
    hosts = [cluster.ps_hosts[0], *cluster.hosts(1)]
    own = processes.directory / "own.json"
    own.write_text(json.dumps({"ps": hosts, "worker": cluster.worker_hosts}))
    process = processes.run(f"--cluster_file={own}", "--job_name=ps", "--task_index=1", *PACE, *flags)
    host, port = hosts[1].split(":")
    eventually(lambda: socket.socket().connect_ex((host, int(port))) == 0, 60, "the other process")
    return process, hosts


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_a_ps_that_is_replaced_while_it_is_silent_holds_nothing_up_and_changes_nothing_when_it_wakes(
    processes: Processes, update: str
) -> None:
    cluster = Described(processes, 2)
    flags = (*FLAGS, f"--update={update}")
    servers, workers = cluster.start_all(*flags)
    silent = servers[1]
    servers[1], hosts = replacement(cluster, processes, *flags)
    eventually(lambda: last_step(workers[0]) > 20, 60, "training")
    silent.send(signal.SIGSTOP)
    cluster.write(hosts)
    for worker in workers:
        worker.wait_for(f"is now ps:1 ({hosts[1]}) (cluster_file)", RECOVERY_SECS)
    moved = time.monotonic()
    workers[0].wait_for("ps:1 restarted; restored step", RECOVERY_SECS)
    told = re.search(r"ps:1 restarted; restored step (\d+); (\d+) updates lost", workers[0].output)
    assert told is not None
    restored, lost = map(int, told.groups())
    reached = restored + lost
    eventually(lambda: last_step(workers[0]) > reached, RECOVERY_SECS, "a step after the recovery")
    assert time.monotonic() - moved < RECOVERY_SECS
    silent.send(signal.SIGCONT)
    for process in (*workers, *servers):
        assert process.wait(60) == 0, process.output
    assert saved(cluster.model_dir, "global_step") == STEPS
    assert {*saved(cluster.model_dir, "first")} == {STEPS}
    assert {*saved(cluster.model_dir, "second")} == {STEPS - lost if update == "async" else STEPS}


@pytest.mark.long
def test_a_signal_ends_the_job_in_time_while_a_ps_is_silent(processes: Processes) -> None:
    cluster = Described(processes, 2)
    servers, workers = cluster.start_all("--max_steps=100000000", "--update=sync", "--recovery_timeout_secs=60")
    workers[0].wait_for("step ")
    eventually(lambda: last_step(workers[0]) > 20, 60, workers[0].output)
    servers[1].send(signal.SIGSTOP)
    workers[0].wait_for("does not answer", 20)
    workers[1].send(signal.SIGTERM)
    began = time.monotonic()
    for process in (*workers, servers[0]):
        assert process.wait(12) == 143, process.output
    assert time.monotonic() - began < 10
    assert "no checkpoint could be taken (ps:1 (" in workers[0].output
