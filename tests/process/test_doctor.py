"""The doctor on healthy and on hostile surroundings: its lines, exit code and deadline, and nothing left behind."""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support.machine.namespaces import Host, hosts, needs_namespaces
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Process, Processes, eventually

pytestmark = pytest.mark.timeout(300)

QUICK = "--wait_secs=1.5"


def doctor(processes: Processes, *arguments: str, env: dict[str, str] | None = None, prefix: Sequence[str] = ()):
    return processes.command([*prefix, sys.executable, "-m", "ps_train", "doctor", *arguments], env=env)


def lines_of(process: Process, subject: str) -> list[str]:
    """The findings about a subject."""
    return [line for line in process.lines if line.split()[:2][1:] == [subject]]


@pytest.mark.long
def test_a_healthy_local_job(processes):
    process = doctor(processes, "--num_ps=2", "--num_workers=2", "--optimizer=adam")
    assert process.wait(200) == 0, process.output
    assert "FAIL" not in process.output
    assert "ps:0  " in process.output and "hidden1/weights" in process.output
    for subject in ("versions", "cores", "files", "proxy", "public", "plan", "memory", "disk", "writing", "reach"):
        assert lines_of(process, subject), subject
    assert "75.0 KiB of variables, 15" in lines_of(process, "plan")[0]
    assert re.search(r"round trip \d+\.\d\d ms; pull .*/s, push .*/s", lines_of(process, "transport")[0])
    assert re.search(r"is 0\.\d+s (ahead of|behind) this host", lines_of(process, "clock")[0])
    assert "nothing found that would stop this job" in process.lines[-1]
    assert not processes.orphans() and not (processes.directory / "runs").exists()


@pytest.mark.long
def test_the_doctors_of_a_rack_measure_each_other_and_the_first_one_adds_up_its_bytes(processes, tmp_path):
    ports = free_ports(4)
    hosts = [f"127.0.0.1:{port}" for port in ports]
    (tmp_path / "racks").write_text('{"ps:0": "a", "127.0.0.1": "b"}')
    flags = [f"--ps_hosts={hosts[0]}", f"--worker_hosts={','.join(hosts[1:])}", "--update=sync"]
    flags += [f"--rack_file={tmp_path}/racks", f"--model_dir={tmp_path}/m", "--wait_secs=60"]
    tasks = [("ps", 0), ("worker", 0), ("worker", 1), ("worker", 2)]
    found = [doctor(processes, *flags, f"--job_name={name}", f"--task_index={index}") for name, index in tasks]
    assert [process.wait(200) for process in found] == [0] * 4, [process.output for process in found]
    for index, process in enumerate(found[1:]):
        (line,) = lines_of(process, "neighbour")
        assert f"worker:{(index + 1) % 3} (" in line and "pull " in line
        assert ("over its way to other racks without racks" in process.output) == (index == 0)


def test_the_plan_needs_no_network(processes):
    cluster = ["--ps_hosts=no-such-host.invalid:2222", "--worker_hosts=also-none.invalid:2222", "--model_dir=m"]
    process = doctor(processes, *cluster, "--plan_only")
    assert process.wait(100) == 0, process.output
    assert lines_of(process, "plan") and lines_of(process, "memory") and lines_of(process, "disk")
    assert not lines_of(process, "names") and not lines_of(process, "reach")


def cluster_flags(ps: list[str], workers: list[str]) -> list[str]:
    return [f"--ps_hosts={','.join(ps)}", f"--worker_hosts={','.join(workers)}", "--model_dir=m"]


@pytest.mark.long
def test_doctors_of_a_ps_and_of_two_workers_measure_each_other(processes):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(3)]
    flags = [*cluster_flags(hosts[:1], hosts[1:]), "--wait_secs=100"]
    ps = doctor(processes, *flags, "--job_name=ps", "--task_index=0")
    workers = [doctor(processes, *flags, "--job_name=worker", f"--task_index={i}") for i in range(2)]
    for process in (ps, *workers):
        assert process.wait(200) == 0, process.output
    assert [line.split()[2] for line in lines_of(ps, "workers")] and len(lines_of(ps, "workers")) == 2
    for index, process in enumerate(workers):
        assert f"is reached from worker:{index}: its doctor answers" in process.output
        assert f"is worker:{index}, {hosts[1 + index]}" in process.output
        assert lines_of(process, "transport")[0].startswith("ok") and "has the same versions" in process.output
    assert bool(lines_of(workers[0], "disk")) and not lines_of(workers[1], "disk")  # the chief alone saves


@pytest.mark.long
def test_doctors_of_workers_that_are_the_ps_measure_each_other(processes):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    flags = ["--ps_on_workers", f"--worker_hosts={','.join(hosts)}", "--model_dir=m", "--wait_secs=100"]
    workers = [doctor(processes, *flags, "--job_name=worker", f"--task_index={i}") for i in range(2)]
    for process in workers:
        assert process.wait(200) == 0, process.output
    for index, process in enumerate(workers):
        other = 1 - index
        assert f"ps:{other} ({hosts[other]}) is reached from worker:{index}: its doctor answers" in process.output
        assert f"worker:{other} on " in lines_of(process, "workers")[0]
        assert len(lines_of(process, "transport")) == 1, "no measurement of the own share"
        assert "needed (worker:0 " in lines_of(process, "memory")[0]
    assert "a step pulls " in lines_of(workers[0], "wire")[0] and not lines_of(workers[1], "wire")


@contextlib.contextmanager
def silent_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def http_port():
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        found = re.search(r"port (\d+)", server.stdout.readline())
        yield int(found[1])
    finally:
        server.kill()
        server.wait()


@pytest.mark.long
def test_ports_that_are_closed_silent_or_of_another_program(processes):
    closed, own = free_ports(2)
    with silent_port() as silent, http_port() as http:
        ps = [f"127.0.0.1:{port}" for port in (closed, silent, http)]
        flags = [*cluster_flags(ps, [f"127.0.0.1:{own}"]), "--job_name=worker", "--task_index=0"]
        process = doctor(processes, *flags, QUICK)
        assert process.wait(90) == 2, process.output
    first, second, third = lines_of(process, "reach")
    assert "FAIL" in first and ps[0] in first and "connection refused" in first and "start the doctor" in first
    assert "FAIL" in second and ps[1] in second and "says nothing" in second
    assert "FAIL" in third and ps[2] in third and "an HTTP server" in third
    assert "3 findings must be corrected" in process.lines[-1]


@pytest.mark.long
def test_a_host_without_a_task_looks_at_names_and_ports(processes):
    with silent_port() as busy:
        flags = cluster_flags([f"127.0.0.1:{busy}", "no-such-host.invalid:2222"], [f"127.0.0.1:{free_ports(1)[0]}"])
        process = doctor(processes, *flags, QUICK)
        assert process.wait(90) == 2, process.output
    assert "would be ps:0, worker:0, by its addresses" in lines_of(process, "task")[0]
    assert "'no-such-host.invalid' of ps:1 is not resolved" in lines_of(process, "names")[0]
    assert f"port {busy} of ps:0" in lines_of(process, "port")[0] and "held by pid" in lines_of(process, "port")[0]


@pytest.mark.long
def test_a_running_ps_is_left_alone(processes):
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    flags = cluster_flags([ps], [worker])
    running = processes.run(*flags, "--job_name=ps", "--task_index=0", "--startup_timeout_secs=200")
    running.wait_for("serves on")
    process = doctor(processes, *flags, "--job_name=worker", "--task_index=0", "--wait_secs=30")
    assert process.wait(120) == 0, process.output
    assert "a ps of a running job answers" in process.output and "round trip" in lines_of(process, "transport")[0]
    assert running.process.poll() is None


@pytest.mark.long
def test_a_ps_needs_no_model_and_waits_no_longer_than_it_is_told(processes):
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    flags = [f"--ps_hosts={ps}", f"--worker_hosts={worker}", "--job_name=ps", "--task_index=0", "--wait_secs=1"]
    process = doctor(processes, *flags, "--model=not.here:Net")
    assert process.wait(90) == 0, process.output
    assert lines_of(process, "model")[0].startswith("warn") and "not.here:Net" in lines_of(process, "model")[0]
    assert "the doctor of worker:0 did not come within 1s" in lines_of(process, "workers")[0]


@pytest.mark.long
def test_a_proxy_in_the_way_is_said_and_gone_round(processes):
    env = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    process = doctor(processes, env=env)
    assert process.wait(100) == 0, process.output
    assert lines_of(process, "proxy")[0].startswith("warn") and "no_proxy=" in lines_of(process, "proxy")[0]
    assert lines_of(process, "transport")[0].startswith("ok")


@pytest.mark.long
def test_few_open_files_stop_the_checks_before_tensorflow_aborts(processes):
    script = (
        "import resource, sys, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
        "sys.argv = ['ps_train', 'doctor', '--num_ps=1']; "
        "runpy.run_module('ps_train', run_name='__main__', alter_sys=True)"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64
    process = processes.command([sys.executable, "-c", script])
    assert process.wait(90) == 2, process.output
    assert "64 open files allowed" in lines_of(process, "files")[0]


@pytest.mark.long
def test_a_model_that_fails_is_one_line_as_in_the_job(processes):
    process = doctor(processes, "--model=tests.support.models.small:Raises")
    assert process.wait(90) == 2, process.output
    (line,) = lines_of(process, "model")
    assert line.startswith("FAIL") and "my own mistake" in line


@pytest.mark.long
def test_variables_that_do_not_fit_are_a_failure(processes):
    flags = ["--model=benchmarks.workloads.big:Big", "--model_arg=rows=2000000000", "--optimizer=adagrad"]
    process = doctor(processes, *flags)
    assert process.wait(120) == 2, process.output
    assert lines_of(process, "memory")[0].startswith("FAIL")


@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
@pytest.mark.long
def test_a_signal_ends_it_at_once_and_leaves_nothing(processes, signum):
    process = doctor(processes, "--num_workers=1")
    eventually(process.descendants, 120, "the doctor of the ps")
    process.send(signum)
    assert process.wait(10) == 128 + signum
    eventually(lambda: not process.descendants(), 10, "the end of its children")


@pytest.mark.long
def test_the_death_of_the_doctor_is_the_end_of_its_children(processes):
    process = doctor(processes, "--num_workers=1")
    eventually(process.descendants, 120, "the doctor of the ps")
    process.send(signal.SIGKILL)
    eventually(lambda: not process.descendants(), 20, "the end of its children")


needs_netem = pytest.mark.skipif(shutil.which("tc") is None, reason="a delayed network needs the program tc")
ADDRESSES = ("10.78.0.1", "10.78.0.2")


def delay(host: Host, millis: int) -> None:
    """Delays what the host sends."""
    done = host.run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", f"{millis}ms")
    if done.returncode:
        pytest.skip(f"no delay: {done.stderr.strip()}")


@needs_netem
@needs_namespaces
def test_the_delay_of_a_network_shows_in_the_round_trip(processes):
    flags = ["--ps_hosts=10.78.0.1:2222", "--worker_hosts=10.78.0.2:2222", "--model_dir=m", "--wait_secs=100"]
    with hosts(*ADDRESSES) as (first, second):
        delay(first, millis=15)
        delay(second, millis=15)
        ps = doctor(processes, *flags, "--job_name=ps", "--task_index=0", prefix=first.prefix)
        worker = doctor(processes, *flags, "--job_name=worker", "--task_index=0", prefix=second.prefix)
        assert ps.wait(200) == 0 and worker.wait(200) == 0, ps.output + worker.output
    (line,) = lines_of(worker, "transport")
    found = re.search(r"round trip ([\d.]+) ms", line)
    assert found is not None and 29.5 <= float(found[1]) < 200 and line.startswith("warn")
    assert lines_of(ps, "task")[0].startswith("ok") and lines_of(worker, "task")[0].startswith("ok")


@pytest.mark.long
@needs_namespaces
def test_a_firewall_that_drops_is_a_failure_within_the_deadline(processes):
    flags = ["--ps_hosts=10.78.0.1:2222,10.78.0.9:2222", "--worker_hosts=10.78.0.2:2222", "--model_dir=m"]
    with hosts(*ADDRESSES) as (_, second):
        second.run(
            "ip", "neighbour", "add", "10.78.0.9", "lladdr", "02:00:00:00:00:09", "dev", "eth0"
        ).check_returncode()
        process = doctor(processes, *flags, prefix=second.prefix)
        assert process.wait(90) == 2, process.output
    refused, dropped = lines_of(process, "reach")
    assert refused.startswith("warn") and "10.78.0.1:2222" in refused and "refused" in refused
    assert dropped.startswith("FAIL") and "no answer within 3s" in dropped and "open the port" in dropped
    assert "would be worker:0" in lines_of(process, "task")[0]
