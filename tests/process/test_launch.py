"""python -m ps_train launch with real processes: behind a command in the place of ssh, and behind a real sshd."""

from __future__ import annotations

import getpass
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.support.machine.fork_server import MARK
from tests.support.machine.ports import free_ports
from tests.support.machine.proc import is_alive, marked
from tests.support.machine.processes import Process, Processes, eventually

FAKE_SSH = f"""#!/bin/sh
# ssh in the way of OpenSSH: options, a host, a command that a shell of that host runs, elsewhere and with little else
while [ "${{1#-}}" != "$1" ]; do shift 2; done
echo "$$ $1" >> "$FAKE_HOSTS"
shift
cd /
HOME="$(dirname "$FAKE_HOSTS")"
exec env -i PATH="$PATH" HOME="$HOME" {MARK}="${MARK}" TF_CONFIG='{{"task": {{"type": "ps"}}}}' sh -c "$*"
"""

Launch = Callable[..., Process]


def port_base() -> int:
    """A port with free ones after it."""
    while True:
        (first,) = free_ports(1)
        try:
            for port in range(first, first + 4):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            continue
        return first


@pytest.fixture
def launch(processes: Processes) -> Launch:
    """Starts the launcher with a ps on a, and two workers on b; both are this machine."""
    script = processes.directory / "fake_ssh"
    script.write_text(FAKE_SSH)
    script.chmod(0o755)

    def start(
        *arguments: str, hosts: str = "a=127.0.0.1:ps,me@b=127.0.0.1:worker*2", ssh: str = "", env: str = ""
    ) -> Process:
        command = [sys.executable, "-m", "ps_train", "launch", f"--hosts={hosts}", f"--port={port_base()}"]
        command += [
            f"--ssh={ssh or shlex.quote(str(script)) + ' -o BatchMode=yes'}",
            *([f"--env={env}"] if env else []),
            "--",
        ]
        own = {"FAKE_HOSTS": str(processes.directory / "hosts")}
        return processes.command([*command, "--startup_timeout_secs=60", "--model_dir=m", *arguments], env=own)

    return start


def pid_of(launcher: Process, task: str) -> int:
    """The process that is a task; its command line has its name."""
    job_name, _, index = task.partition(":")
    for pid in launcher.descendants():
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if words[2:3] == ["ps_train"] and f"--job_name={job_name}" in words and f"--task_index={index}" in words:
            return pid
    raise AssertionError(f"no {task} among the descendants")


def is_empty(launcher: Process) -> bool:
    return not launcher.descendants()


ENDLESS = ("--max_steps=100000000", "--log_secs=0.1")


def test_a_job_runs_to_its_end_with_the_output_of_all_tasks(launch: Launch, processes: Processes) -> None:
    run = launch("--max_steps=60", "--log_dir=logs")
    assert run.wait(120) == 0, run.output
    assert "tasks: ps:0 on a (127.0.0.1:" in run.lines[0] and "worker:1 on me@b (127.0.0.1:" in run.lines[0]
    assert "[ps:0] ps:0 serves on 127.0.0.1:" in run.output
    assert "[worker:1] worker:1 done" in run.output and "step 60/60" in run.output
    hosts = (processes.directory / "hosts").read_text().split()[1::2]
    assert sorted(hosts) == ["a", "me@b", "me@b"]
    assert json.loads((processes.directory / "m" / "result.json").read_text())["global_step"] == 60
    logs = sorted(path.name for path in (processes.directory / "logs").iterdir())
    assert logs == ["ps_0.log", "worker_0.log", "worker_1.log"]
    eventually(lambda: is_empty(run), 10, "the end of all processes")


def test_the_first_failure_is_the_cause_and_gives_its_exit_code(launch: Launch, processes: Processes) -> None:
    run = launch("--model=tests.support.models.small:NoSuch", "--log_dir=logs")
    assert run.wait(120) == 2
    assert "failed with exit code 2, and so the job failed: " in run.lines[-1] and "NoSuch" in run.lines[-1]
    task = run.lines[-1].split()[1]
    found = json.loads((processes.directory / "logs" / f"{task.replace(':', '_')}.error.json").read_text())
    assert found["task"] == task and "NoSuch" in found["cause"] and found["traceback"].startswith("Traceback")
    eventually(lambda: is_empty(run), 10, "the end of all processes")


@pytest.mark.long
def test_sigterm_saves_a_checkpoint_and_ends_all(launch: Launch, processes: Processes) -> None:
    run = launch(*ENDLESS, "--save_secs=1000")
    run.wait_for("step ", 90)
    run.send(signal.SIGTERM)
    assert run.wait(30) == 128 + signal.SIGTERM, run.output
    assert list((processes.directory / "m").glob("model.ckpt-*.index")), run.output
    eventually(lambda: is_empty(run), 10, "the end of all processes")


@pytest.mark.long
def test_a_killed_launcher_leaves_nothing_behind(launch: Launch) -> None:
    run = launch(*ENDLESS)
    run.wait_for("step ", 90)
    assert len(run.descendants()) >= 6  # three tasks and their other sides
    run.send(signal.SIGKILL)
    eventually(lambda: is_empty(run), 15, "the end of all processes")


@pytest.mark.long
def test_a_lost_connection_ends_its_task_and_the_policy_restarts_it(launch: Launch, processes: Processes) -> None:
    run = launch(*ENDLESS, "--max_restarts=1", "--save_secs=1", "--heartbeat_timeout_secs=3")
    run.wait_for("step ", 90)
    run.wait_for("worker:1 training from", 90)  # the chief may make steps before it
    task = pid_of(run, "worker:1")
    other_side = int(pathlib.Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(other_side, signal.SIGKILL)  # the fake ssh has become it
    run.wait_for("worker:1 was ended by signal 9 (SIGKILL); it will restart in 0.5s (restart 1 of 1)", 20)
    eventually(lambda: not is_alive(task), 10, "the end of the first process")
    eventually(lambda: run.output.count("worker:1 training from") == 2, 150, "the second start")
    run.send(signal.SIGTERM)
    assert run.wait(30) == 128 + signal.SIGTERM, run.output
    eventually(lambda: is_empty(run), 10, "the end of all processes")


def test_an_ssh_that_fails_is_the_cause(launch: Launch) -> None:
    run = launch(ssh="sh -c 'echo cannot connect to $0 >&2; exit 255'", hosts="a:ps,b:worker")
    assert run.wait(60) == 255
    assert "failed with exit code 255, and so the job failed: cannot connect to" in run.lines[-1]


@pytest.fixture
def real_ssh(tmp_path: pathlib.Path) -> Iterator[str]:
    """The command of ssh for a server on the loopback, with keys of this test alone."""
    server, client = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"), shutil.which("ssh")
    if not server or not client:
        pytest.skip("openssh-server and openssh-client are not installed")
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key], check=True)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # the server insists on it
    (port,) = free_ports(1)
    options = {
        "HostKey": tmp_path / "host", "AuthorizedKeysFile": tmp_path / "authorized", "PidFile": "none", "Port": port,
        "ListenAddress": "127.0.0.1", "StrictModes": "no", "UsePAM": "no", "PasswordAuthentication": "no",
        "PermitRootLogin": "yes", "MaxStartups": "100",
    }  # fmt: skip
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    with open(tmp_path / "sshd.log", "w") as log:
        process = subprocess.Popen([server, "-D", "-e", "-f", "/dev/null", *given], stderr=log)
    ssh = [client, "-F", "none", "-p", str(port), "-i", str(tmp_path / "user"), "-o", "BatchMode=yes"]
    ssh += ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path}/known", "-o", "LogLevel=ERROR"]

    def is_ready() -> bool:
        return subprocess.run([*ssh, "127.0.0.1", "true"], capture_output=True, timeout=30).returncode == 0

    try:
        for _ in range(20):
            if is_ready():
                break
        else:
            pytest.skip(f"no login to a server on the loopback: {(tmp_path / 'sshd.log').read_text()[-300:]}")
        yield shlex.join(ssh)
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_a_job_over_a_real_ssh_and_the_end_of_its_launcher(launch: Launch, real_ssh: str, processes: Processes) -> None:
    me, mark = getpass.getuser(), f"SSH_TEST_{os.getpid()}=1"
    hosts = f"{me}@127.0.0.1:ps,127.0.0.1:worker*2"
    run = launch("--max_steps=40", hosts=hosts, ssh=real_ssh, env=mark)
    assert run.wait(120) == 0, run.output
    assert "[worker:1] worker:1 done" in run.output
    eventually(lambda: not marked(mark), 10, "the end of all processes")

    run = launch(*ENDLESS, "--model_dir=m2", hosts=hosts, ssh=real_ssh, env=mark)
    run.wait_for("step ", 90)
    assert len(marked(mark)) >= 6
    run.send(signal.SIGTERM)
    assert run.wait(30) == 128 + signal.SIGTERM, run.output
    assert list((processes.directory / "m2").glob("model.ckpt-*.index")), run.output
    eventually(lambda: not marked(mark), 10, "the end of all processes")

    run = launch(*ENDLESS, "--model_dir=m3", hosts=hosts, ssh=real_ssh, env=mark)
    run.wait_for("step ", 90)
    run.send(signal.SIGKILL)
    eventually(lambda: not marked(mark), 15, "the end of all processes")
