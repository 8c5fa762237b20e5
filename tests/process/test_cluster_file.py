"""--cluster_file: a ps comes back at another address, and another number of ps in the next run."""

from __future__ import annotations

import json
import pathlib
import re
import signal

import numpy as np
import pytest
import tensorflow as tf

from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Process, Processes, eventually

FLAGS = ("--model=tests.support.models.small:Counting", "--batch_size=1", "--log_secs=0.1", "--save_steps=50")


class Described:
    """A cluster that stands in a file only."""

    def __init__(self, processes: Processes, num_ps: int) -> None:
        self._processes = processes
        self.path = processes.directory / "cluster.json"
        self.model_dir = processes.directory / "model"
        self.worker_hosts = self.hosts(2)
        self.write(self.hosts(num_ps))

    @staticmethod
    def hosts(count: int) -> list[str]:
        return [f"127.0.0.1:{port}" for port in free_ports(count)]

    def write(self, ps_hosts: list[str]) -> None:
        self.ps_hosts = ps_hosts
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"ps": ps_hosts, "worker": self.worker_hosts}))
        new.replace(self.path)

    def start(self, job_name: str, index: int, *flags: str) -> Process:
        own = [f"--cluster_file={self.path}", f"--job_name={job_name}", f"--task_index={index}"]
        return self._processes.run(*own, f"--model_dir={self.model_dir}", *FLAGS, *flags)

    def start_all(self, *flags: str) -> tuple[list[Process], list[Process]]:
        servers = [self.start("ps", index, *flags) for index in range(len(self.ps_hosts))]
        return servers, [self.start("worker", index, *flags) for index in range(2)]


def saved(directory: pathlib.Path, name: str) -> np.ndarray:
    return tf.train.load_checkpoint(str(directory)).get_tensor(name)


@pytest.mark.long
def test_a_ps_that_comes_back_at_another_address_is_found_there_and_training_goes_on(processes: Processes) -> None:
    cluster = Described(processes, 2)
    flags = ("--max_steps=1200", "--update=sync")
    servers, workers = cluster.start_all(*flags)
    eventually(lambda: (cluster.model_dir / "checkpoint").exists() and "step " in workers[0].output, 60, "training")
    workers[0].wait_for("\nstep 1")
    servers[1].send(signal.SIGKILL)
    before, after = cluster.ps_hosts[1], cluster.hosts(1)[0]
    workers[1].wait_for(f"lost ps:1 ({before}): ", 20)
    cluster.write([cluster.ps_hosts[0], after])
    servers[1] = cluster.start("ps", 1, *flags)
    for worker in workers:
        worker.wait_for(f"ps:1 ({before}) is now ps:1 ({after}) (cluster_file)", 20)
    for process in (*workers, *servers):
        assert process.wait(60) == 0, process.output
    assert re.search(r"ps:1 restarted; restored step \d+", workers[0].output)
    assert saved(cluster.model_dir, "global_step") == 1200
    assert {*saved(cluster.model_dir, "first")} == {*saved(cluster.model_dir, "second")} == {1200}


@pytest.mark.long
def test_a_file_with_another_number_of_ps_is_for_the_next_run_which_goes_on_where_this_one_ended(
    processes: Processes,
) -> None:
    cluster = Described(processes, 1)
    servers, workers = cluster.start_all("--max_steps=500")
    workers[0].wait_for("step ")
    cluster.write(cluster.hosts(2))
    workers[0].wait_for("names 2 ps now, and this run has 1: the file takes effect in the next run", 20)
    for process in (*workers, *servers):
        assert process.wait(60) == 0, process.output
    servers, workers = cluster.start_all("--max_steps=600")
    for process in (*workers, *servers):
        assert process.wait(60) == 0, process.output
    assert "at step 500" in workers[0].output
    assert saved(cluster.model_dir, "global_step") == 600
    assert {*saved(cluster.model_dir, "first")} == {*saved(cluster.model_dir, "second")} == {600}


@pytest.mark.long
def test_a_file_that_is_spoilt_while_training_changes_nothing_and_is_reported(processes: Processes) -> None:
    cluster = Described(processes, 1)
    servers, workers = cluster.start_all("--max_steps=1000")
    workers[0].wait_for("step ")
    cluster.path.write_text("{")
    workers[0].wait_for("is not JSON", 20)
    assert "the addresses stay as they were until the file is valid" in workers[0].output
    for process in (*workers, *servers):
        assert process.wait(60) == 0, process.output


def test_a_file_that_is_not_there_is_an_error_that_names_it(processes: Processes) -> None:
    missing = processes.run("--cluster_file=/nowhere/cluster.json", "--job_name=ps", "--task_index=0")
    assert missing.wait(20) == 2
    assert missing.lines[-1] == (
        "ps_train: error: cluster_file /nowhere/cluster.json cannot be read (No such file or directory). "
        "(help: troubleshoot#it-does-not-start)"
    )


@pytest.mark.parametrize("more", [[], ["--cluster_from=tf_config"]])
@pytest.mark.usual(1)
def test_the_cluster_of_tf_config_may_be_started_on_this_machine_by_one_command(
    processes: Processes, more: list[str]
) -> None:
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    model_dir = processes.directory / "of_tf_config"
    config = {"cluster": {"ps": [ps], "worker": [worker]}, "model_dir": str(model_dir)}
    flags = ["--job_name=local", *more, "--model=tests.support.models.small:Linear", "--max_steps=20"]
    run = processes.run(*flags, env={"TF_CONFIG": json.dumps(config)})
    assert run.wait(80) == 0, run.output
    assert f"ps:0 serves on {ps}" in run.output
    assert (model_dir / "result.json").exists()
