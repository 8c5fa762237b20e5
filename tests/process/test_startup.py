"""Starting: what is unreachable, taken or mixed up is named in one line, with the right exit code; nothing hangs."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time

import pytest

from tests.support.long import long
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Processes, TestCluster, eventually

SHORT = "--startup_timeout_secs=1.5"


def only_error(output: str) -> str:
    """The one line of an error; there must be no stack trace."""
    assert "Traceback" not in output
    errors = [line for line in output.splitlines() if "error: " in line]
    assert len(errors) == 1, output
    return errors[0]


def test_a_ps_that_refuses_connections_is_named_with_its_address_and_the_cause(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 1, SHORT)
    worker = cluster.start("worker", 0)
    assert worker.wait(30) == 1
    error = only_error(worker.output)
    assert (
        "ps:0" in error and cluster.ps_hosts[0] in error and "refused" in error and "startup_timeout_secs=1.5" in error
    )


@pytest.mark.long
def test_a_name_that_does_not_resolve_is_named(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 1)
    hosts = f"--ps_hosts=no-such-host.invalid:{free_ports(1)[0]}"
    worker = cluster.start("worker", 0, hosts, SHORT)
    assert worker.wait(40) == 1
    assert "no-such-host.invalid" in only_error(worker.output) and "not resolved" in worker.output


@pytest.mark.long
def test_a_port_that_accepts_but_never_answers_does_not_hang_the_worker(processes: Processes) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        worker = TestCluster(processes, 1, 1).start(
            "worker", 0, f"--ps_hosts=127.0.0.1:{silent.getsockname()[1]}", SHORT
        )
        assert worker.wait(40) == 1
        assert "ps:0" in only_error(worker.output) and "does not answer" in worker.output


@pytest.mark.long
def test_mixed_up_host_lists_are_refused_and_shown(processes: Processes) -> None:
    cluster = TestCluster(processes, 2, 1)
    first, second = cluster.start("ps", 0), cluster.start("ps", 1)
    first.wait_for("serves")
    second.wait_for("serves")
    swapped = cluster.start("worker", 0, f"--ps_hosts={cluster.ps_hosts[1]},{cluster.ps_hosts[0]}")
    assert swapped.wait(40) == 2
    assert "answers as ps:1" in only_error(swapped.output)
    other = cluster.start("worker", 0, f"--worker_hosts={cluster.worker_hosts[0]},127.0.0.1:{free_ports(1)[0]}")
    assert other.wait(40) == 2
    assert "worker_hosts" in only_error(other.output)


def test_a_worker_whose_job_or_model_differs_is_refused_with_the_difference_and_the_job_goes_on(
    processes: Processes,
) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=100000000", "--model_arg=hidden=16", "--log_secs=0.2")
    cluster.start("ps", 0)
    chief = cluster.start("worker", 0)
    differs = cluster.start("worker", 1, "--model_arg=hidden=32", "--optimizer=sgd")
    assert differs.wait(40) == 2
    error = only_error(differs.output)
    assert "[64, 16]" in error and "[64, 32]" in error and "optimizer" in error and "hidden1/weights" in error
    seen = len(chief.lines)
    eventually(lambda: len(chief.lines) > seen, 60, "further progress of the chief")


@pytest.mark.long
def test_a_second_process_of_the_same_task_is_refused_and_told_which_has_it(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=100000000")
    cluster.start("ps", 0)
    holder = cluster.start("worker", 0)
    holder.wait_for("step ")
    same_port = cluster.start("worker", 0)
    assert same_port.wait(30) == 2
    assert "busy" in only_error(same_port.output) and f"pid {holder.pid}" in same_port.output
    not_checked = {"PS_TRAIN_HELD_PORT_FD": "0"}  # as on another machine, where the port is free
    elsewhere = cluster.start("worker", 0, f"--model_dir={processes.directory}/other", env=not_checked)
    assert elsewhere.wait(40) == 2
    assert "already running" in only_error(elsewhere.output) and f"pid {holder.pid}" in elsewhere.output
    assert holder.process.poll() is None


@pytest.mark.long
def test_workers_of_an_asynchronous_job_neither_need_nor_wait_for_absent_ones(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 3, "--max_steps=200")
    ps, chief = cluster.start("ps", 0), cluster.start("worker", 0)
    assert chief.wait(60) == 0
    left = time.monotonic()
    assert ps.wait(10) == 0
    assert ps.ended_at is not None and ps.ended_at - left < 5
    assert json.loads((cluster.model_dir / "result.json").read_text())["global_step"] == 200


def test_a_ps_to_which_no_worker_comes_gives_up(processes: Processes) -> None:
    ps = TestCluster(processes, 1, 1).start("ps", 0, SHORT)
    assert ps.wait(30) == 1
    assert "no worker has come" in only_error(ps.output)


@pytest.mark.long
def test_a_chief_that_needs_longer_to_build_its_model_than_others_wait_for_it_is_waited_for(
    processes: Processes,
) -> None:
    cluster = TestCluster(
        processes, 1, 2, "--model=tests.support.models.small:SlowToBuild", "--max_steps=20", "--startup_timeout_secs=15"
    )
    ps = cluster.start("ps", 0)
    ps.wait_for("serves")
    workers = [cluster.start("worker", index, env={"BUILD_SECS": "24"} if index == 0 else {}) for index in range(2)]
    for process in (*workers, ps):
        assert process.wait(200) == 0, process.output
    assert "lost" not in ps.output


@pytest.mark.long
def test_a_proxy_in_the_environment_is_not_used_for_the_cluster(processes: Processes) -> None:
    proxy = f"http://127.0.0.1:{free_ports(1)[0]}"
    run = processes.run(
        "--max_steps=50", f"--model_dir={processes.directory}/m", env={"http_proxy": proxy, "no_proxy": ""}
    )
    assert run.wait(60) == 0, run.output


@pytest.mark.long
def test_ipv6_addresses_work(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 1, "--max_steps=50", host="[::1]")
    (ps,), (worker,) = cluster.start_all()
    assert worker.wait(60) == 0, worker.output
    assert ps.wait(10) == 0


def test_tf_config_describes_a_process(processes: Processes) -> None:
    ports = free_ports(3)
    cluster = {
        "ps": [f"127.0.0.1:{ports[0]}"],
        "master": [f"127.0.0.1:{ports[1]}"],
        "worker": {"1": f"127.0.0.1:{ports[2]}"},
    }

    def config(kind: str, index: int) -> dict[str, str]:
        task = {"type": kind, "index": index}
        return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})}

    flags = ["--max_steps=50", "--num_workers=2", f"--model_dir={processes.directory}/m"]
    everybody = [processes.run(*flags, env=config(*task)) for task in (("ps", 0), ("master", 0), ("worker", 1))]
    assert [process.wait(60) for process in everybody] == [0, 0, 0], everybody[1].output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--job_name=wrker"], ["wrker", "command line", "ps, worker, chief"]),
        (["--job_name=worker", "--task_index=5"], ["task_index=5", "2 tasks", "use 0, 1"]),
        (["--job_name=worker"], ["task_index", "counted from 0"]),
        (["--job_name=ps", "--task_index=0", "--ps_hosts=127.0.0.1:70000"], ["70000", "1 to 65535", "ps_hosts"]),
        (["--job_name=ps", "--task_index=0", "--ps_hosts=127.0.0.1:2223"], ["127.0.0.1:2223", "ps:0", "worker:0"]),
        (["--job_name=ps", "--task_index=0", "--ps_hosts=a..b:2222"], ["a..b:2222", "ps_hosts", "63 characters"]),
        (
            ["--job_name=local", "--worker_hosts=127.0.0.1:2223,a..b:2222"],
            ["a..b:2222", "worker_hosts", "63 characters"],
        ),
        (["train"], ["positional", "train"]),
        (["--bach_size=3"], ["bach_size", "batch_size"]),
        (["--flagfile=no/such.flags"], ["no/such.flags"]),
        (["--job_name=worker", "--task_index=0", "--model_dir=/proc/nothing"], ["model_dir=/proc/nothing", "written"]),
        long(["--job_name=worker", "--task_index=0"], ["model_dir", "worker:0", "chief"]),
        (["--job_name=worker", "--task_index=1", "--model=no.such:Model"], ["no.such:Model", "no module"]),
        long(["--job_name=worker", "--task_index=1", "--model=ps_train.models.digits:Dgits"], ["Dgits", "Digits"]),
        long(["--job_name=worker", "--task_index=1", "--model_arg=hiden=3"], ["hiden", "hidden"]),
        long(
            ["--job_name=worker", "--task_index=1", "--model=ps_train.models.mnist:Softmax"],
            ["train-images", "data_dir"],
        ),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) and value[0].startswith("-") else None,
)
def test_wrong_configuration_is_one_line_and_exit_code_2(
    processes: Processes, arguments: list[str], words: list[str]
) -> None:
    hosts = ["--ps_hosts=127.0.0.1:2222", "--worker_hosts=127.0.0.1:2223,127.0.0.1:2224"]
    process = processes.run(*hosts, *arguments)
    assert process.wait(30) == 2, process.output
    error = only_error(process.output)
    assert all(word in error for word in words), error


@pytest.mark.long
def test_a_ps_and_a_worker_wait_for_a_late_chief_longer_than_for_a_lost_one(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2, "--max_steps=100", "--recovery_timeout_secs=2", "--heartbeat_timeout_secs=1")
    ps, worker = cluster.start("ps", 0), cluster.start("worker", 1)
    ps.wait_for("serves")
    worker.wait_for("waiting for the chief", 30)  # said after ten seconds
    assert ps.process.poll() is None and worker.process.poll() is None
    chief = cluster.start("worker", 0)
    assert [process.wait(60) for process in (chief, worker, ps)] == [0, 0, 0], worker.output


def test_a_signal_ends_a_worker_that_waits_for_the_chief_at_once(processes: Processes) -> None:
    cluster = TestCluster(processes, 1, 2)
    cluster.start("ps", 0).wait_for("serves")
    worker = cluster.start("worker", 1)
    worker.wait_for("waiting for the chief", 30)
    worker.send(signal.SIGTERM)
    assert worker.wait(20) == 143


@pytest.mark.long
def test_workers_that_are_copies_of_one_process_do_not_draw_the_same_numbers(processes: Processes) -> None:
    flags = ["--model=tests.support.models.small:Drawing", "--max_steps=2", f"--model_dir={processes.directory}/model"]
    program = f"import sys, numpy.random; from ps_train.__main__ import run; sys.argv[1:] = {flags}; run()"
    run = processes.command([sys.executable, "-c", program])
    assert run.wait(60) == 0, run.output
    drawn = [line.rpartition("drew ")[2] for line in run.lines if "drew " in line]
    assert len(drawn) >= 2 and len(set(drawn)) == len(drawn), run.output
